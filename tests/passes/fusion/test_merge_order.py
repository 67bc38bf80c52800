"""Nodes may merge if none depends on another; updates, if also the same steps run them."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.merge_order import merge_depths, waiting_for


def test_nodes_that_depend_on_each_other_have_different_depths() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0, name="x")
        a = tf.negative(x, name="a")
        tf.negative(x, name="b")
        between = tf.exp(a, name="between")
        tf.negative(between, name="c")
    view = GraphView(graph.as_graph_def())
    order = view.topological_order()
    assert order is not None
    assert merge_depths(view, order, {"a", "b", "c"}) == {"a": 1, "b": 1, "c": 2}


def test_a_control_edge_counts() -> None:
    with tf.Graph().as_default() as graph:
        a = tf.constant(1.0, name="a")
        with tf.control_dependencies([a]):
            tf.constant(1.0, name="b")
    view = GraphView(graph.as_graph_def())
    order = view.topological_order()
    assert order is not None
    assert merge_depths(view, order, {"a", "b"}) == {"a": 1, "b": 2}


def test_waits_are_followed_through_groups() -> None:
    with tf.Graph().as_default() as graph:
        updates = [tf.no_op(name="update_{}".format(i)) for i in range(3)]
        inner = tf.group(updates[0], name="inner")
        step = tf.group(inner, updates[1], name="step")
        with tf.control_dependencies([step]):
            tf.constant(1, name="counted")
    view = GraphView(graph.as_graph_def())
    assert waiting_for(view, "update_0") == waiting_for(view, "update_1") == {"counted"}
    assert waiting_for(view, "update_2") == {"update_2"}
