"""Values of node attributes."""

from __future__ import annotations

from typing import Any, Sequence

from graph_opt.compat import tf
from graph_opt.graph.view import Shape, shape_proto


def integer(value: int) -> Any:
    """An `int`."""
    return tf.AttrValue(i=value)


def integers(values: Sequence[int]) -> Any:
    """A `list(int)`."""
    return tf.AttrValue(list=tf.AttrValue.ListValue(i=values))


def booleans(values: Sequence[bool]) -> Any:
    """A `list(bool)`."""
    return tf.AttrValue(list=tf.AttrValue.ListValue(b=values))


def text(value: str) -> Any:
    """A `string`."""
    return tf.AttrValue(s=value.encode())


def texts(values: Sequence[str]) -> Any:
    """A `list(string)`."""
    return tf.AttrValue(list=tf.AttrValue.ListValue(s=[value.encode() for value in values]))


def types(values: Sequence[int]) -> Any:
    """A `list(type)` of DataType numbers."""
    return tf.AttrValue(list=tf.AttrValue.ListValue(type=values))


def shapes(values: Sequence[Shape]) -> Any:
    """A `list(shape)`, the type of `_output_shapes`."""
    return tf.AttrValue(list=tf.AttrValue.ListValue(shape=[shape_proto(shape) for shape in values]))


def colocated(variables: Sequence[str]) -> Any:
    """The `_class` of a node that must be placed where these variables are."""
    return texts(["loc:@{}".format(name) for name in variables])
