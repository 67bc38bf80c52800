"""For each code of `micro_batch_num`, a small model; see refused_models.py."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from tests.passes.refused_models import Inputs, registered, trained


def in_micro_batches(rule: str = "parts") -> Any:
    """A config that asks for two."""
    made = ConfigProto()
    made.graph_options.optimizer_options.micro_batch_num = 2
    made.graph_options.optimizer_options.micro_batch_rule = "parts"
    made.graph_options.optimizer_options.micro_batch_rule = rule
    return made


def _dense(inputs: Inputs) -> Any:
    return tf.cast(tf.reshape(inputs["one"], [-1, 1]), tf.float32)


@registered("rows_mixed", in_micro_batches())
def normalized_over_the_batch(inputs: Inputs) -> None:
    hidden = _dense(inputs)
    for name in ("first", "second"):
        weights = tf.get_variable(name, [int(hidden.shape[1]), 4])
        hidden = tf.matmul(hidden, weights)
        hidden -= tf.reduce_mean(hidden, 0)
    trained(hidden)


@registered("no_source_to_pull", in_micro_batches("batches"))
def fed_to_dense_layers(inputs: Inputs) -> None:
    fed = tf.placeholder(tf.float32, [None, 3])
    trained(tf.matmul(fed, tf.get_variable("weights", [3, 4])))


@registered("step_not_repeatable", in_micro_batches("batches"))
def scaled_by_a_running_sum(inputs: Inputs) -> None:
    total = tf.assign_add(tf.get_variable("seen", []), tf.reduce_sum(_dense(inputs)))
    trained(tf.matmul(_dense(inputs) / total, tf.get_variable("weights", [1, 4])))


@registered("update_not_summed", in_micro_batches("batches"))
def updated_by_hand(inputs: Inputs) -> None:
    weights = tf.get_variable("weights", [1, 4])
    loss = tf.reduce_sum(tf.square(tf.matmul(_dense(inputs), weights)))
    tf.assign_sub(weights, 0.1 * tf.gradients(loss, weights)[0])
