"""What a page says of a node: the tensors that it returns and its attributes, shortened."""

from __future__ import annotations

import functools
from typing import Any, List, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_name, output_dtypes
from graph_opt.reporting.tables import shape_text

_SHAPES = "_output_shapes"
_MOST_OUTPUTS = 8
_MOST_CHARACTERS = 80
_MOST_ATTRIBUTES = 24
_MOST_ELEMENTS = 6


def outputs_text(node: Any) -> str:
    """Type and static shape of each output, as in `float32 [?, 16]`; "" where they are unknown."""
    shapes = node.attr[_SHAPES].SerializeToString() if _SHAPES in node.attr else b""
    return _outputs_text(tuple(output_dtypes(node) or ()), shapes)


@functools.lru_cache(maxsize=4096)  # A large graph has the same few again and again.
def _outputs_text(dtypes: Tuple[int, ...], serialized: bytes) -> str:
    shapes = tf.AttrValue.FromString(serialized).list.shape
    if shapes and not dtypes:
        return ", ".join(_shape(shape) for shape in shapes[:_MOST_OUTPUTS])
    texts = [
        "{} {}".format(_type(dtype), _shape(shapes[i]) if i < len(shapes) else "").rstrip()
        for i, dtype in enumerate(dtypes[:_MOST_OUTPUTS])
    ]
    if len(dtypes) > _MOST_OUTPUTS:
        texts.append("and {} more".format(len(dtypes) - _MOST_OUTPUTS))
    return ", ".join(texts)


def attributes_text(node: Any) -> str:
    """A line for each attribute; values of tensors only if they are scalars."""
    names = sorted(name for name in node.attr if name not in (_SHAPES, "_class"))
    lines = [
        "{} = {}".format(_short(name), _short(_value(node.attr[name])))
        for name in names[:_MOST_ATTRIBUTES]
    ]
    if len(names) > _MOST_ATTRIBUTES:
        lines.append("and {} more".format(len(names) - _MOST_ATTRIBUTES))
    return "\n".join(lines)


def _type(number: int) -> str:
    try:
        return dtype_name(number)
    except TypeError:  # Files may have any number.
        return "type {}".format(number)


def _shape(proto: Any) -> str:
    if proto.unknown_rank:
        return "?"
    return shape_text([None if size.size < 0 else size.size for size in proto.dim])


def _short(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 3] + "..."


def _value(attribute: Any) -> str:
    kind = attribute.WhichOneof("value")
    if kind == "list":
        return _list(attribute.list)
    if kind == "tensor":
        return _tensor(attribute.tensor)
    if kind is None:
        return ""
    return _one(kind, getattr(attribute, kind))


def _list(values: Any) -> str:
    fields = values.ListFields()
    if not fields:
        return "[]"
    descriptor, elements = fields[0]
    texts: List[str] = [_one(descriptor.name, one) for one in elements[:_MOST_ELEMENTS]]
    if len(elements) > _MOST_ELEMENTS:
        texts.append("{} in all".format(len(elements)))
    return "[{}]".format(", ".join(texts))


def _one(kind: str, value: Any) -> str:
    if kind == "s":
        return repr(bytes(value[: 2 * _MOST_CHARACTERS]).decode("utf-8", "replace"))
    if kind == "type":
        return _type(value)
    if kind == "shape":
        return _shape(value)
    if kind == "func":
        return value.name
    return str(value)


def _tensor(tensor: Any) -> str:
    shape = _shape(tensor.tensor_shape)
    head = "{} {}".format(_type(tensor.dtype), shape)
    if shape != "[]":
        return head
    scalars = [
        one
        for field in (tensor.float_val, tensor.int_val, tensor.int64_val, tensor.double_val)
        for one in field
    ]
    return "{}: {}".format(head, scalars[0]) if len(scalars) == 1 else head
