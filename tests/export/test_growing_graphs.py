"""Graphs that one thread reads while another adds to them."""

from __future__ import annotations

import threading
from typing import Any

import graph_opt
from graph_opt.compat import tf

TIMEOUT = 60


class SlowlyGrowingGraph(tf.Graph):
    """Tells Python of a node, which C++ has already, once it has been exported twice."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = False
        self.half_added = threading.Event()
        self.exports = 0
        self.exported_twice = threading.Event()

    def _add_op(self, *arguments: Any) -> Any:
        if self.slow:
            self.half_added.set()
            assert self.exported_twice.wait(TIMEOUT)
        return super()._add_op(*arguments)

    def _as_graph_def(self, *arguments: Any, **named: Any) -> Any:
        self.exports += 1
        if self.exports == 2:
            self.exported_twice.set()
        return super()._as_graph_def(*arguments, **named)


def test_a_node_that_another_thread_is_adding_is_waited_for() -> None:
    with SlowlyGrowingGraph().as_default() as graph:
        tf.constant(1.0, name="first")

    def add() -> None:
        with graph.as_default():
            tf.constant(2.0, name="second")

    graph.slow = True
    adding = threading.Thread(target=add)
    adding.start()
    assert graph.half_added.wait(TIMEOUT)
    exported = graph_opt.running_graph_def(graph, add_shapes=True)
    adding.join()

    assert [node.name for node in exported.node] == ["first", "second"]
