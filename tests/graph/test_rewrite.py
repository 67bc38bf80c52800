"""Rewrites as data, and their application to a GraphDef."""

from __future__ import annotations

import pytest

from graph_opt.compat import tf
from graph_opt.graph.rewrite import ControlEdit, InputEdit, Rewrite, apply_to_graph_def


def _chain() -> tf.GraphDef:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="a", op="NoOp")
    graph_def.node.add(name="b", op="Const")
    graph_def.node.add(name="c", op="Identity", input=["b", "^a"])
    return graph_def


def test_edits_apply_to_a_copy() -> None:
    graph_def = _chain()
    before = graph_def.SerializeToString()
    new = tf.NodeDef(name="d", op="Const")
    rewrite = Rewrite((new,), (InputEdit("c", 0, "d"),), (ControlEdit("c", ("a",), ("d",)),))
    rewritten = apply_to_graph_def(graph_def, rewrite)
    assert graph_def.SerializeToString() == before
    assert list(rewritten.node[2].input) == ["d", "^d"]
    assert rewritten.node[3].name == "d"


def test_control_edits_of_one_node_accumulate() -> None:
    edits = (ControlEdit("c", ("a",), ("x",)), ControlEdit("c", (), ("x", "y")))
    rewritten = apply_to_graph_def(_chain(), Rewrite((), (), edits))
    assert list(rewritten.node[2].input) == ["b", "^x", "^y"]


@pytest.mark.parametrize(
    "edit, message",
    [(InputEdit("gone", 0, "b"), "'gone'"), (InputEdit("c", 1, "b"), "no data input 1")],
)
def test_an_edit_of_something_missing_is_an_error(edit: InputEdit, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        apply_to_graph_def(_chain(), Rewrite((), (edit,)))
