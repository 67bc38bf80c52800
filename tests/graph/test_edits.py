"""Edits that are collected, and then applied to a graph."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.graph.edits import Edits
from graph_opt.graph.rewrite import Rewrite, apply_to_graph_def
from graph_opt.graph.view import GraphView, TensorRef, Use

GRAPH = tf.GraphDef(
    node=[
        tf.NodeDef(name="old", op="Split"),
        tf.NodeDef(name="other", op="Const"),
        tf.NodeDef(name="reader", op="AddV2", input=["old:1", "other"]),
        tf.NodeDef(name="both", op="AddV2", input=["old:1", "old", "^other"]),
        tf.NodeDef(name="waiting", op="NoOp", input=["^old", "^other"]),
    ]
)


def edited(edits: Edits, *nodes: Any) -> List[str]:
    """The nodes with their inputs, as `name: input input`."""
    found = apply_to_graph_def(GRAPH, edits.rewrite(nodes)).node
    return ["{}: {}".format(node.name, " ".join(node.input)) for node in found if node.input]


def test_all_that_reads_a_tensor_reads_another_one() -> None:
    edits = Edits(GraphView(GRAPH))
    edits.replace(TensorRef("old", 1), "new:2")
    assert edited(edits, tf.NodeDef(name="new")) == [
        "reader: new:2 other",
        "both: new:2 old ^other",
        "waiting: ^old ^other",
    ]


def test_all_that_waits_for_a_node_waits_for_another_one() -> None:
    edits = Edits(GraphView(GRAPH))
    edits.replace_waits("old", "new")
    edits.replace_waits("other", "new")
    edits.wait("reader", "new")
    assert edited(edits, tf.NodeDef(name="new")) == [
        "reader: old:1 other ^new",
        "both: old:1 old ^new",
        "waiting: ^new",
    ]


def test_one_node_waits_for_others_or_for_none() -> None:
    edits = Edits(GraphView(GRAPH))
    edits.move_wait("waiting", "old", ["new", "newer"])
    edits.move_wait("waiting", "other", ["newer"])
    edits.move_wait("both", "other")
    assert edited(edits)[1:] == ["both: old:1 old", "waiting: ^new ^newer"]


def test_the_last_edit_of_an_input_counts() -> None:
    edits = Edits(GraphView(GRAPH))
    edits.replace(TensorRef("old", 1), "first")
    edits.move([Use("reader", 0)], "second")
    edits.move_input("reader", 1, "third")
    edits.move_input("reader", 1, "fourth")
    assert edited(edits)[0] == "reader: second fourth"


def test_new_nodes_read_what_replaces_their_inputs() -> None:
    edits = Edits(GraphView(GRAPH))
    edits.replace(TensorRef("old", 0), "new")
    edits.replace(TensorRef("old", 1), "new:1")
    edits.replace_waits("other", "late")
    node = tf.NodeDef(name="n", input=["old", "kept", "old:1", "^other", "^old", "^late"])
    edits.apply_to_new([node])
    assert list(node.input) == ["new", "kept", "new:1", "^late", "^new"]


def test_attributes_and_nothing() -> None:
    edits = Edits(GraphView(GRAPH))
    assert not edits and edits.rewrite() == Rewrite()
    edits.set("reader", "count", 3)
    assert edits
    assert apply_to_graph_def(GRAPH, edits.rewrite()).node[2].attr["count"].i == 3
