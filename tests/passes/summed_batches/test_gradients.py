"""What updates take of a batch, and which updates are not known."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import pytest

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.summed_batches.gradients import taken_gradients
from tests.control_flow import control_flow_v2
from tests.passes import models


def taken() -> List[str]:
    """For each gradient: whether slices are joined, the tensor, and the edges to the update."""
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    found = taken_gradients(view, view.of_op("IteratorGetNext"))
    return [
        "{} {} -> {}".format(
            "joined" if each.joined else "summed",
            each.tensor,
            ", ".join("{}:{}".format(*use) for use in each.uses),
        )
        for each in found
    ]


def refusal() -> Any:
    with pytest.raises(Refusal) as refused:
        taken()
    assert refused.value.code == "update_not_summed"
    return refused.value


def dense_loss(inputs: Dict[str, Any], resource: bool) -> Any:
    weights = tf.get_variable("w", [4, 1], use_resource=resource)
    return tf.reduce_sum(tf.matmul(inputs["dense"], weights))


DENSE = "gradients/MatMul_grad/tuple/control_dependency_1:0"


@pytest.mark.parametrize(
    "optimizer, op, slot",
    [
        (lambda: tf.train.GradientDescentOptimizer(0.1), "ApplyGradientDescent", 2),
        (lambda: tf.train.AdagradOptimizer(0.1), "ApplyAdagrad", 3),
        (lambda: tf.train.MomentumOptimizer(0.1, 0.9), "ApplyMomentum", 3),
        (lambda: tf.train.AdamOptimizer(0.1), "ApplyAdam", 9),
        (lambda: tf.train.FtrlOptimizer(0.1), "ApplyFtrl", 3),
    ],
)
@pytest.mark.parametrize("resource", [False, True])
def test_gradients_of_whole_variables(
    optimizer: Callable[[], Any], op: str, slot: int, resource: bool
) -> None:
    made = optimizer()
    made.minimize(dense_loss(models.features(), resource))
    update = "{}/update_w/{}{}".format(made.get_name(), "Resource" * resource, op)
    assert taken() == ["summed {} -> {}:{}".format(DENSE, update, slot)]


def test_slices_are_joined_before_rows_are_summed() -> None:
    rows = tf.nn.embedding_lookup(models.table(), models.features()["other"])
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
    scope, update = "gradients/embedding_lookup_grad/", "Adagrad/update_table/"
    assert taken() == [
        "joined {}Reshape:0 -> {}UnsortedSegmentSum:0".format(scope, update),
        "joined {}Reshape_1:0 -> {}Unique:0".format(scope, update),
    ]


def test_slices_of_two_lookups_of_the_same_ids_share_the_ids() -> None:
    inputs = models.features()
    table = models.table()
    pooled = [tf.nn.embedding_lookup(table, inputs["other"]) for _ in range(2)]
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(pooled[0] * pooled[1]))
    assert len(taken()) == len(set(taken())) == 4


def test_a_penalty_alone_counts_once_for_each_batch() -> None:
    inputs = models.features()
    penalized = tf.get_variable("p", [3], use_resource=False)
    loss = dense_loss(inputs, False) + tf.nn.l2_loss(penalized)
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    tensors = [line.split()[1] for line in taken()]
    assert sorted(tensors) == ["gradients/L2Loss_grad/mul:0", DENSE]


def test_what_is_trained_from_fed_values_is_of_no_batch() -> None:
    fed = tf.get_variable("fed", [3], use_resource=False)
    loss = tf.reduce_sum(fed * tf.placeholder(tf.float32, [3]))
    tf.train.GradientDescentOptimizer(0.1).minimize(dense_loss(models.features(), False))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert [line.split()[1] for line in taken()] == [DENSE]


def test_weights_of_a_loop_that_always_turns_as_often_are_of_the_batch() -> None:
    """Their gradient depends on the batch only by way of the loop's own back edge."""
    weights = tf.get_variable("w", [4, 4], use_resource=False)
    dense = models.features()["dense"]
    with control_flow_v2(False):
        _, hidden = tf.while_loop(
            lambda step, _: step < 2,
            lambda step, hidden: (step + 1, tf.matmul(hidden, weights)),
            [tf.constant(0), dense],
        )
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(hidden))
    (line,) = taken()
    assert line.endswith("-> GradientDescent/update_w/ApplyGradientDescent:2")


def test_averages_that_are_no_gradients_are_left_alone() -> None:
    inputs = models.features()
    moving = tf.get_variable("moving", [4], trainable=False, use_resource=False)
    hidden = inputs["dense"] - moving
    tf.assign_sub(moving, (moving - tf.reduce_mean(inputs["dense"], 0)) * 0.1)
    weights = tf.get_variable("w", [4, 1], use_resource=False)
    loss = tf.reduce_sum(tf.matmul(hidden, weights))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert len(taken()) == 1


def test_an_update_by_hand_is_named() -> None:
    loss = dense_loss(models.features(), False)
    (variable,) = tf.trainable_variables()
    (gradient,) = tf.gradients(loss, [variable])
    tf.assign_sub(variable, 0.1 * gradient, name="by_hand")
    assert refusal().node == "by_hand"


def test_an_update_in_a_branch_is_named() -> None:
    loss = dense_loss(models.features(), True)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    with control_flow_v2(False):
        tf.cond(tf.timestamp() > 0, lambda: optimizer.apply_gradients(pairs), tf.no_op)
    found = refusal()
    assert found.saw == "a branch or loop" and "ResourceApplyGradientDescent" in found.node


def test_a_function_that_may_update_is_named() -> None:
    loss = dense_loss(models.features(), True)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    pairs = optimizer.compute_gradients(loss)
    with control_flow_v2(True):
        tf.cond(tf.timestamp() > 0, lambda: optimizer.apply_gradients(pairs), tf.no_op)
    assert refusal().saw == "a function that may update"


def test_nothing_is_taken_where_nothing_is_trained() -> None:
    dense_loss(models.features(), False)
    assert taken() == []
