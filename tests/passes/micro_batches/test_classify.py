"""What is computed once before the parts of a batch, in each of them, and once after."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.micro_batches.classify import Classifier
from tests.control_flow import control_flow_v2
from tests.passes.micro_batches.classified import Tensors, batch, classifier, layer, told, weights


def state(tensor: Any) -> str:
    return classifier().nodes[tensor.op.name].state


def test_the_batch_and_weights_are_early_and_layers_are_copied() -> None:
    hidden = layer()
    found = classifier().nodes
    assert {found[name].state for name in ("batch", "layer_weights/read")} == {"early"}
    assert found["layer"].state == "copied"
    assert state(tf.tanh(hidden)) == "copied"


def test_shapes_are_numbers_in_which_rows_are_the_parts_own() -> None:
    def make(x: Any) -> Tensors:
        return {
            "shape": tf.shape(x),
            "size": tf.size(x),
            "rows": tf.cast(tf.shape(x)[0], tf.float32),
            "width": tf.shape(x)[1],
        }

    found = told(make)
    assert found.pop("width") in ("shared", "early")
    assert set(found.values()) == {"numbers"}, found


def test_a_mean_by_hand_divides_by_all_rows() -> None:
    def make(x: Any) -> Tensors:
        return {"mean": tf.reduce_sum(x) / tf.cast(tf.shape(x)[0], tf.float32)}

    assert told(make) == {"mean": "total"}


def test_numbers_are_drawn_once_for_the_whole_batch() -> None:
    def make(x: Any) -> Tensors:
        return {
            "drawn": tf.random_uniform(tf.shape(x), seed=3),
            "dropped": tf.nn.dropout(x, rate=0.5, seed=3),
        }

    assert told(make) == {"drawn": "early", "dropped": "rows 0"}


def test_state_is_changed_once_after_all_parts() -> None:
    def make(x: Any) -> Tensors:
        seen = tf.get_variable("seen", [], use_resource=False, trainable=False)
        return {"seen": tf.assign_add(seen, tf.reduce_sum(x))}

    assert told(make)["seen"].startswith("late")


def test_what_waits_for_a_copied_node_is_not_early() -> None:
    hidden = layer()
    with tf.control_dependencies([hidden]):
        behind = tf.tanh(weights(3))
        group = tf.no_op()
    assert state(behind) in ("copied", "late")
    assert classifier().nodes[group.name].state == "copied"


def test_what_waits_for_late_nodes_is_late() -> None:
    with tf.control_dependencies([tf.reduce_max(layer())]):
        behind = tf.tanh(weights(3))
    assert state(behind) == "late"


def test_branches_and_loops_over_layers_are_late() -> None:
    hidden = layer()
    with control_flow_v2(False):
        chosen = tf.cond(tf.reduce_sum(hidden) > 0, lambda: hidden + 1, lambda: hidden)
        _, turned = tf.while_loop(
            lambda step, _: step < 2, lambda step, x: (step + 1, x * 2), [tf.constant(0), hidden]
        )
    assert (state(chosen), state(turned)) == ("late", "late")


def test_functions_over_layers_are_late() -> None:
    hidden = layer()
    with control_flow_v2(True):
        chosen = tf.cond(tf.reduce_sum(hidden) > 0, lambda: hidden + 1, lambda: hidden)
    assert state(chosen) == "late"


@pytest.mark.parametrize("rows", [None, 8])
def test_most_tensors_of_a_batch_tell_its_rows(rows: Any) -> None:
    tf.placeholder(tf.float32, [3], name="other")
    tf.placeholder(tf.float32, [rows, 2], name="labels")
    hidden = layer(rows)
    labels = tf.get_default_graph().get_tensor_by_name("labels:0")
    other = tf.get_default_graph().get_tensor_by_name("other:0")
    joined = tf.concat([hidden, labels], 1)
    found = classifier()
    assert found.nodes[joined.op.name].state == "copied"
    (value,) = found.nodes[other.op.name].outputs
    assert (value.rows is None) == (rows is not None)


def test_what_runs_ahead_of_the_step_is_early() -> None:
    hidden = tf.matmul(batch(), weights(6, 6), name="ahead")
    behind = tf.tanh(hidden)
    view = GraphView(tf.get_default_graph().as_graph_def(add_shapes=True))
    found = Classifier(view, frozenset(["ahead"]), 2).nodes
    assert (found["ahead"].state, found[behind.op.name].state) == ("early", "early")


def test_gradients_that_nothing_reads_hold_nothing_back() -> None:
    loss = tf.reduce_sum(tf.square(tf.matmul(batch(), weights(6, 6))))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    found = classifier()
    assert found.unused.nodes
    (product,) = (name for name in found.nodes if name.endswith("MatMul_grad/MatMul_1"))
    assert found.nodes[product].outputs[0].total
