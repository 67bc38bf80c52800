"""A cycle is found, and shown with its neighbourhood."""

from __future__ import annotations

import pytest

from graph_opt.compat import tf
from graph_opt.graph.verify import GraphError, around, verify
from graph_opt.graph.view import GraphView


def _view(*nodes: tuple) -> GraphView:
    graph_def = tf.GraphDef()
    for name, inputs in nodes:
        graph_def.node.add(name=name, op="NoOp", input=["^" + source for source in inputs])
    return GraphView(graph_def)


def test_a_graph_without_a_cycle_is_legal() -> None:
    verify(_view(("a", []), ("b", ["a"]), ("c", ["a", "b"])))


def test_a_cycle_is_shown_with_its_neighbours() -> None:
    view = _view(("start", []), ("a", ["start", "c"]), ("b", ["a"]), ("c", ["b"]))
    with pytest.raises(GraphError, match="cycle") as caught:
        verify(view)
    assert "start = NoOp()" in str(caught.value)


def test_around_shows_nodes_within_the_given_hops() -> None:
    view = _view(("a", []), ("b", ["a"]), ("c", ["b"]), ("d", ["c"]))
    shown = around(view, "a", hops=1)
    assert "> a" in shown and "b = NoOp(^a)" in shown and "c = " not in shown
