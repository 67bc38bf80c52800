"""Which nodes come before others, with branches and loops."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.precedence import Precedence
from graph_opt.graph.view import GraphView
from tests.passes.refused_models import ControlFlowV1


def test_data_and_control_edges_lead_there() -> None:
    first = tf.constant(1.0, name="first")
    with tf.control_dependencies([first]):
        second = tf.constant(2.0, name="second")
    tf.add(second, tf.constant(3.0, name="third"), name="sum")
    order = Precedence(GraphView(tf.get_default_graph().as_graph_def()), ["third", "first"])
    assert order.before("sum", ["first", "third"]) == ["first", "third"]
    assert order.before("second", ["first", "third"]) == ["first"]
    assert order.before("third", ["first", "third"]) == ["third"]


def test_steps_of_a_loop_come_before_its_next_ones() -> None:
    def body(number: object, value: object) -> object:
        early = tf.multiply(value, 2.0, name="early")
        return tf.add(number, 1), tf.negative(early, name="late")

    with ControlFlowV1():
        after = tf.while_loop(lambda number, _: number < 3, body, [0, 1.0])
    tf.identity(after[1], name="after")
    view = GraphView(tf.get_default_graph().as_graph_def())
    order = Precedence(view, ["while/late", "after"])
    assert order.before("while/early", ["while/late", "after"]) == ["while/late"]
    assert order.before("after", ["while/late"]) == ["while/late"]
    for node in view.nodes:
        expected = [one for one in ("while/late", "after") if one in view.ancestors([node])]
        assert order.before(node, ["while/late", "after"]) == expected
