"""`async_embedding_mark_node` leaves a mark that travels with the GraphDef."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.runtime.mark import MARK, MARKED_OUTPUTS, async_embedding_mark_node


def marks_of(tensor: Any) -> Any:
    """The mark in the GraphDef: None, or the output indices."""
    nodes = {node.name: node for node in tf.get_default_graph().as_graph_def().node}
    attributes = nodes[tensor.op.name].attr
    return list(attributes[MARKED_OUTPUTS].list.i) if attributes[MARK].b else None


def test_the_tensor_comes_back_marked_and_nothing_is_added() -> None:
    rows = tf.gather(tf.zeros([5, 2]), [1, 3])
    before = len(tf.get_default_graph().get_operations())
    assert async_embedding_mark_node(rows) is rows
    assert marks_of(rows) == [0]
    assert len(tf.get_default_graph().get_operations()) == before


def test_several_outputs_of_one_op_may_be_marked() -> None:
    first, second, third = tf.split(tf.zeros([6, 2]), 3)
    for tensor in (third, first, third):
        async_embedding_mark_node(tensor)
    assert marks_of(second) == [0, 2]


@pytest.mark.parametrize("what", [None, "rows:0", 3])
def test_what_is_not_a_tensor_is_refused(what: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"need a tf\.Tensor"):
        async_embedding_mark_node(what)


def test_a_sparse_tensor_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="each dense output"):
        async_embedding_mark_node(tf.sparse.from_dense(tf.eye(2)))
