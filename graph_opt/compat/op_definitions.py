"""What the op registry says about a node: its outputs' dtypes and whether it has state."""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Optional

from tensorflow.core.framework import op_def_pb2
from tensorflow.python.framework import op_def_registry

from graph_opt.compat import tf
from graph_opt.compat.c_functions import c_api

_REF_OFFSET = 100
# Graph files may have collectives where Horovod's library is not loaded: outputs beside the first.
_COLLECTIVES: Dict[str, List[int]] = {
    "HorovodAllreduce": [],
    "HorovodAllgather": [],
    "HorovodBroadcast": [],
    "HorovodAlltoall": [tf.int32.as_datatype_enum],
}


@functools.lru_cache(maxsize=None)
def _compiled_ops() -> Dict[str, Any]:
    listed = op_def_pb2.OpList.FromString(c_api.TF_GetBuffer(c_api.TF_GetAllOpList()))
    return {definition.name: definition for definition in listed.op}


def _registered_in_version_1(op: str) -> Optional[Any]:
    """In Python, TensorFlow 1 has the ops of imported modules and loaded libraries alone."""
    found = op_def_registry.get_registered_ops().get(op)
    return _compiled_ops().get(op) if found is None else found


# Whether the ops of a library are found once it is loaded, or only once it has Python functions.
KNOWS_LOADED_OPS = hasattr(op_def_registry, "get")

_registered: Callable[[str], Optional[Any]] = getattr(
    op_def_registry, "get", _registered_in_version_1
)


def op_definition(op: str) -> Optional[Any]:
    """The OpDef of `op`, or None if this process does not have the op (a library is not loaded)."""
    return _registered(op)


def is_registered(op: str) -> bool:
    """Whether this process knows the op."""
    return op_definition(op) is not None


def is_stateful(op: str) -> bool:
    """Whether `op` has state: its own, or a variable taken by reference (Assign, ScatterAdd).

    An op that this process does not know counts as stateful.
    """
    definition = op_definition(op)
    if definition is None:
        return True
    return bool(definition.is_stateful) or any(arg.is_ref for arg in definition.input_arg)


def may_call_functions(op: str) -> bool:
    """Whether nodes of this op name functions in their attributes; True for an unknown op."""
    definition = op_definition(op)
    if definition is None:
        return True
    return any(attribute.type in ("func", "list(func)") for attribute in definition.attr)


def output_dtypes(node: Any) -> Optional[List[int]]:
    """DataType numbers of the node's outputs in flat order, or None for an unknown op.

    Args:
      node: A NodeDef. Attributes that it lacks take the OpDef's default.

    Returns:
      One number for each flat output (each element of an output list is one); reference types keep
      their offset of 100, as in `DataType.DT_FLOAT_REF`.
    """
    definition = op_definition(node.op)
    if definition is None:
        others = _COLLECTIVES.get(node.op)
        return None if others is None else [node.attr["T"].type, *others]
    dtypes: List[int] = []
    for argument in definition.output_arg:
        types = _argument_types(argument, node, definition)
        if types is None:
            return None
        offset = _REF_OFFSET if argument.is_ref else 0
        dtypes.extend(number + offset for number in types)
    return dtypes


def output_arguments(node: Any) -> Dict[str, List[int]]:
    """DataType numbers of a node's outputs, by their names in the definition of its op, in order.

    Raises:
      KeyError: The op is unknown, or the node lacks an attribute on which they depend.
    """
    definition = op_definition(node.op)
    if definition is None:
        raise KeyError(node.op)
    found: Dict[str, List[int]] = {}
    for argument in definition.output_arg:
        types = _argument_types(argument, node, definition)
        if types is None:
            raise KeyError(argument.name)
        found[argument.name] = types
    return found


def input_lengths(node: Any) -> Dict[str, int]:
    """How many tensors each input of a node has, by its name in the definition of its op, in order.

    Raises:
      KeyError: The op is unknown, or the node lacks an attribute on which they depend.
    """
    definition = op_definition(node.op)
    if definition is None:
        raise KeyError(node.op)
    found: Dict[str, int] = {}
    for argument in definition.input_arg:
        types = _argument_types(argument, node, definition)
        if types is None:
            raise KeyError(argument.name)
        found[argument.name] = len(types)
    return found


def attributes_of(op: str, node: Any) -> Dict[str, Any]:
    """Those attributes of a node that nodes of `op` have, too."""
    definition = op_definition(op)
    names = [attribute.name for attribute in definition.attr] if definition is not None else []
    return {name: node.attr[name] for name in names if name in node.attr}


def unknown_attributes(node: Any) -> List[str]:
    """Attributes of a node that its op lacks here, as later releases of TensorFlow give it some.

    Those that begin with an underscore are no op's, and an unknown op has none of either kind.
    """
    definition = op_definition(node.op)
    if definition is None:
        return []
    known = {attribute.name for attribute in definition.attr}
    return [name for name in node.attr if not name.startswith("_") and name not in known]


def input_dtypes(node: Any) -> Optional[List[int]]:
    """DataType numbers of the data inputs that a node takes, or None for an unknown op."""
    definition = op_definition(node.op)
    if definition is None:
        return None
    dtypes: List[int] = []
    for argument in definition.input_arg:
        types = _argument_types(argument, node, definition)
        if types is None:
            return None
        dtypes.extend(types)
    return dtypes


def takes_reference(node: Any, slot: int) -> bool:
    """Whether a node takes data input `slot` by reference; False for an unknown op."""
    definition = op_definition(node.op)
    if definition is None:
        return False
    end = 0
    for argument in definition.input_arg:
        end += len(_argument_types(argument, node, definition) or ())
        if slot < end:
            return bool(argument.is_ref)
    return False


def _argument_types(argument: Any, node: Any, definition: Any) -> Optional[List[int]]:
    if argument.type_list_attr:
        value = _attribute(argument.type_list_attr, node, definition)
        return None if value is None else list(value.list.type)
    if argument.type_attr:
        value = _attribute(argument.type_attr, node, definition)
        if value is None:
            return None
        single = value.type
    else:
        single = argument.type
    if not argument.number_attr:
        return [single]
    count = _attribute(argument.number_attr, node, definition)
    return None if count is None else [single] * count.i


def _attribute(name: str, node: Any, definition: Any) -> Optional[Any]:
    if name in node.attr:
        return node.attr[name]
    for attribute in definition.attr:
        if attribute.name == name and attribute.HasField("default_value"):
            return attribute.default_value
    return None


def is_value(number: int) -> bool:
    """Whether tensors of a DataType number are values: neither references nor resource handles."""
    return number < _REF_OFFSET and number != tf.resource.as_datatype_enum


def is_variant(number: int) -> bool:
    """Whether tensors of a DataType number hold objects, such as the lists of a loop."""
    return number == tf.variant.as_datatype_enum


def value_dtype(number: int) -> int:
    """The DataType number of what a reference refers to; of any other type, the number itself."""
    return number % _REF_OFFSET


def dtype_name(number: int) -> str:
    """Name of a DataType number: 1 is 'float32', 101 is 'float32_ref'."""
    return tf.as_dtype(number).name


def dtype_size(number: int) -> Optional[int]:
    """Bytes per element, or None for strings, variants and resources."""
    base = tf.as_dtype(number).base_dtype
    if base in (tf.string, tf.variant, tf.resource):
        return None
    return int(base.size)
