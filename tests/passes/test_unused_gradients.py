"""Gradients tied into a tuple that nothing reads."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.unused_gradients import unused_gradients


def _view() -> GraphView:
    return GraphView(tf.get_default_graph().as_graph_def())


def test_the_gradient_of_a_factor_without_a_variable_is_unused() -> None:
    factor = tf.placeholder(tf.float32, [4], name="factor")
    variable = tf.get_variable("variable", [4], use_resource=False)
    product = tf.multiply(variable, factor, name="product")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(product))
    unused = unused_gradients(_view())
    assert "gradients/product_grad/tuple/control_dependency_1" in unused.nodes
    assert "gradients/product_grad/Mul_1" in unused.nodes
    assert "gradients/product_grad/Mul" not in unused.nodes
    assert {group for _, group in unused.released} == {"gradients/product_grad/tuple/group_deps"}


def test_a_gradient_that_is_read_is_used() -> None:
    first = tf.get_variable("first", [4], use_resource=False)
    second = tf.get_variable("second", [4], use_resource=False)
    product = tf.multiply(first, second, name="product")
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(product))
    assert not unused_gradients(_view()).released


def test_a_plain_group_of_ops_is_not_a_tuple() -> None:
    tf.group(tf.constant(1.0).op, tf.constant(2.0).op, name="group")
    assert not unused_gradients(_view()).released
