"""A node written as a call of its op: inputs and attributes by name, the rest by its definition.

An OpDef says which attributes follow from the inputs: the dtypes `T`, the lengths `N`, and lists of
dtypes. As in TensorFlow's generated functions, only the others are given.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import input_lengths, op_definition, output_arguments
from graph_opt.graph.view import GraphView, TensorRef, shape_proto

_UNKNOWN = 0  # DT_INVALID


class Tensor(str):
    """A tensor as NodeDefs spell it, `node` or `node:index`.

    Attributes:
      dtype: The DataType number of its values; 0 if that is unknown.
    """

    dtype: int

    def __new__(cls, text: str, dtype: int = _UNKNOWN) -> Tensor:
        """See the class."""
        made = super().__new__(cls, text)
        made.dtype = dtype
        return made

    @property
    def ref(self) -> TensorRef:
        """The node and the number of its output."""
        return TensorRef.parse(self)


class Call(NamedTuple):
    """A node that was written.

    Attributes:
      node: Its NodeDef, which may still be changed.
    """

    node: Any

    @property
    def name(self) -> str:
        """The node's name."""
        return str(self.node.name)

    def outputs(self, name: str) -> List[Tensor]:
        """The tensors of the output that the op's definition calls `name`; often just one.

        Raises:
          ValueError: The op has no such output.
        """
        first = 0
        for argument, dtypes in output_arguments(self.node).items():
            if argument == name:
                return [self._tensor(first + i, dtype) for i, dtype in enumerate(dtypes)]
            first += len(dtypes)
        raise ValueError("op '{}' has no output '{}'".format(self.node.op, name))

    def output(self, name: str) -> Tensor:
        """The tensor of an output that is no list."""
        (tensor,) = self.outputs(name)
        return tensor

    @property
    def result(self) -> Tensor:
        """The tensor of an op that has one output."""
        (dtypes,) = output_arguments(self.node).values()
        (dtype,) = dtypes
        return self._tensor(0, dtype)

    def _tensor(self, index: int, dtype: int) -> Tensor:
        return Tensor(TensorRef(self.node.name, index).input_name, dtype)


def call_op(op: str, name: str, arguments: Mapping[str, Any], device: str = "") -> Call:
    """Writes a node that calls an op.

    Args:
      op: The op, which must be registered.
      name: The node's name.
      arguments: By the names in the op's definition: a `Tensor` for each input, or a list of them;
        the attributes that neither follow from the inputs nor keep their default, as plain values
        (DataType numbers, tuples for shapes) or as AttrValues. Names that begin with `_` are
        attributes that every node may have.
      device: The node's device.

    Raises:
      ValueError: The op is not registered, or an argument is missing, unknown or contradicts
        another one.

    Example:
      >>> ids = Tensor("ids", tf.int32.as_datatype_enum)
      >>> print(call_op("Cast", "ids/int64", {"x": ids, "DstT": tf.int64.as_datatype_enum}).name)
      ids/int64
    """
    signature = _signature(op)
    node = tf.NodeDef(name=name, op=op, device=device)
    left = dict(arguments)
    inferred: Dict[str, Any] = {}
    for argument in signature.inputs:
        tensors = _tensors_of(op, argument, left)
        node.input.extend(tensors)
        for key, value in _inferred_from(argument, tensors):
            if inferred.setdefault(key, value) != value:
                raise _disagreement(op, key, inferred[key], value)
    _set_attributes(node, signature, inferred, left)
    return Call(node)


def inputs_by_name(view: GraphView, name: str) -> Dict[str, Any]:
    """The inputs of a node of a graph, by their names in the definition of its op.

    Raises:
      KeyError: The op is not registered.
    """
    return by_argument(view.nodes[name], iter(view.inputs(name)))


def by_argument(node: Any, tensors: Iterator[Any]) -> Dict[str, Any]:
    """Takes the inputs of a node, by their names in the definition of its op, out of `tensors`.

    Raises:
      KeyError: The op is not registered.
    """
    lengths = input_lengths(node).items()
    return {argument: list(itertools.islice(tensors, length)) for argument, length in lengths}


class _Signature(NamedTuple):
    """What is asked of an OpDef for each call, which protobuf answers slowly."""

    inputs: Tuple[Any, ...]
    kinds: Dict[str, str]
    required: Tuple[str, ...]


@functools.lru_cache(maxsize=None)
def _signature(op: str) -> _Signature:
    definition = op_definition(op)
    if definition is None:
        raise ValueError("op '{}' is not registered".format(op))
    return _Signature(
        tuple(definition.input_arg),
        {attribute.name: attribute.type for attribute in definition.attr},
        tuple(one.name for one in definition.attr if not one.HasField("default_value")),
    )


def _tensors_of(op: str, argument: Any, left: Dict[str, Any]) -> List[str]:
    """Takes the tensors of an input out of what is left of the arguments."""
    if argument.name not in left:
        raise ValueError("op '{}' needs input '{}'".format(op, argument.name))
    given = left.pop(argument.name)
    tensors = list(given) if isinstance(given, list) else [given]
    if not (argument.number_attr or argument.type_list_attr) and len(tensors) != 1:
        raise ValueError("op '{}' takes one tensor as '{}'".format(op, argument.name))
    for dtype in filter(None, map(_dtype, tensors)):
        if argument.type and dtype != argument.type:
            raise _disagreement(op, argument.name, argument.type, dtype)
    return tensors


def _inferred_from(argument: Any, tensors: Sequence[str]) -> Iterator[Tuple[str, Any]]:
    """The attributes that follow from the tensors of an input, as far as dtypes are known."""
    dtypes = [_dtype(tensor) for tensor in tensors]
    if argument.number_attr:
        yield argument.number_attr, len(tensors)
    if argument.type_list_attr and _UNKNOWN not in dtypes:
        yield argument.type_list_attr, dtypes
    if argument.type_attr:
        yield from ((argument.type_attr, dtype) for dtype in dtypes if dtype != _UNKNOWN)


def _set_attributes(
    node: Any, signature: _Signature, inferred: Dict[str, Any], given: Dict[str, Any]
) -> None:
    kinds = signature.kinds
    for key, value in {**inferred, **given}.items():
        if key not in kinds and not key.startswith("_"):
            raise ValueError("op '{}' has no argument '{}'".format(node.op, key))
        node.attr[key].CopyFrom(attribute_value(value, kinds.get(key, "")))
    for key in inferred.keys() & given.keys():
        if node.attr[key] != attribute_value(inferred[key], kinds[key]):
            raise _disagreement(node.op, key, inferred[key], given[key])
    for key in signature.required:
        if key not in node.attr:
            raise ValueError("op '{}' needs attribute '{}'".format(node.op, key))


def _dtype(tensor: str) -> int:
    return int(getattr(tensor, "dtype", _UNKNOWN))


def _disagreement(op: str, key: str, one: Any, other: Any) -> ValueError:
    text = "the arguments of op '{}' disagree on '{}': {} and {}"
    return ValueError(text.format(op, key, one, other))


def attribute_value(value: Any, kind: str = "") -> Any:
    """The AttrValue of a plain value.

    Args:
      value: A plain value; an AttrValue is returned as it is.
      kind: The attribute's type in an OpDef, e.g. `list(int)`; empty: as the value's type has it.
    """
    if isinstance(value, tf.AttrValue):
        return value
    is_list = kind.startswith("list(") or (not kind and isinstance(value, (list, tuple)))
    values = list(value) if is_list else [value]
    field = _FIELDS.get(kind[5:-1] if is_list else kind) or _field_of(values)
    plain = [_plain(one, field) for one in values]
    if is_list:
        return tf.AttrValue(list=tf.AttrValue.ListValue(**{field: plain}))
    return tf.AttrValue(**{field: plain[0]})


_FIELDS = {
    "int": "i",
    "float": "f",
    "bool": "b",
    "string": "s",
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
}


def _field_of(values: Sequence[Any]) -> str:
    """The field of an AttrValue for values of this type; any for none."""
    for kind, field in ((bool, "b"), (int, "i"), (float, "f")):
        if all(isinstance(value, kind) for value in values):
            return field
    return "s"


def _plain(value: Any, field: str) -> Any:
    if field == "shape":
        return shape_proto(value)
    return value.encode("utf-8") if isinstance(value, str) else value
