"""A graph that comes in parts takes no more memory than its limits allow."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.inspect.graph_parts import GraphParts, Limits


def with_nodes(function: Any, count: int) -> Any:
    for _ in range(count):
        function.node_def.add(name="node", op="NoOp")
    return function


def test_nodes_of_a_function_that_were_counted_leave_nothing_behind() -> None:
    parts = GraphParts(tf.GraphDef(), Limits(nodes=3))
    function = with_nodes(tf.GraphDef().library.function.add(), 2)
    function.signature.name = "body"
    assert parts.relieved(function, 0) is function
    for count in (2, 5):
        with_nodes(function, count)
        following = parts.relieved(function, 0)
        assert following is not function  # Its memory goes with it.
        assert following.signature.name == "body" and not following.node_def
        function = following
    parts.add_function(function)
    counted = parts.counted
    assert counted is not None
    assert (counted.functions, counted.function_nodes) == (1, 9)
