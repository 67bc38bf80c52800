"""Shapes that nodes tell, with None for what is not known."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.static_shapes import count_elements, static_shape


def test_shapes_are_read_with_what_is_not_known() -> None:
    for shape in (None, (), (2, 3), (None, 3)):
        proto = tf.TensorShape(None if shape is None else list(shape)).as_proto()
        assert static_shape(proto) == shape


def test_elements_are_counted_if_all_sizes_are_known() -> None:
    assert count_elements([]) == 1
    assert count_elements([2, 3]) == 6
    assert count_elements([None, 0]) is None
