"""For each code of an update that steps wait for, a small model; see refused_models.py."""

from __future__ import annotations

from typing import Any, Callable, Tuple

from graph_opt.compat import tf
from tests.passes.pipeline.delayed_training import pipelining
from tests.passes.refused_models import MODELS, ControlFlowV1, Inputs, Refused
from tests.passes.transfers import dense_models

Losses = Tuple[Any, Any]
Train = Callable[[Any, Losses], None]


def steps_wait(code: str) -> Callable[[Train], Train]:
    """Registers a model of two layers, with a loss each, which `train` trains."""

    def register(train: Train) -> Train:
        def build(inputs: Inputs) -> None:
            with tf.device(dense_models.on_servers(1)):
                kernel = tf.get_variable("kernel", [4, 1], use_resource=True)
                first = tf.reduce_mean(tf.square(tf.matmul(inputs["dense"], kernel)))
                output = dense_models.layers(inputs["dense"], True, (1,))
                train(kernel, (first, tf.reduce_mean(tf.square(output - inputs["label"]))))

        assert code not in MODELS
        MODELS[code] = Refused(build, pipelining())
        return train

    return register


def optimizer() -> Any:
    return tf.train.AdagradOptimizer(0.1)


@steps_wait("pipeline_several_steps")
def losses_in_turns(kernel: Any, losses: Losses) -> None:
    for loss in losses:
        optimizer().minimize(loss)


@steps_wait("pipeline_read_in_main")
def read_after_the_update(kernel: Any, losses: Losses) -> None:
    with tf.control_dependencies([optimizer().minimize(losses[0] + losses[1])]):
        tf.group(tf.identity(tf.reduce_sum(kernel.read_value())))
        tf.identity(kernel.read_value() * 2.0, name="end")


@steps_wait("pipeline_waited_for")
def the_update_is_the_step(kernel: Any, losses: Losses) -> None:
    (gradient,) = tf.gradients(losses[0], [kernel])
    tf.raw_ops.ResourceApplyGradientDescent(var=kernel.handle, alpha=0.1, delta=gradient)


@steps_wait("pipeline_in_control_flow")
def trained_in_a_branch(kernel: Any, losses: Losses) -> None:
    pairs = optimizer().compute_gradients(losses[0] + losses[1])
    with ControlFlowV1():
        tf.cond(
            tf.timestamp() > 0,
            lambda: optimizer().apply_gradients(pairs),
            lambda: tf.no_op(),
            name="maybe",
        )


@steps_wait("pipeline_synchronous")
def trained_by_all_workers_at_once(kernel: Any, losses: Losses) -> None:
    step = tf.train.get_or_create_global_step()
    tf.train.SyncReplicasOptimizer(optimizer(), 2).minimize(losses[0] + losses[1], step)


@steps_wait("pipeline_several_workers")
def gradients_of_two_tasks(kernel: Any, losses: Losses) -> None:
    bias = tf.get_variable("bias", [], use_resource=True)
    with tf.device(None), tf.device("/job:worker/task:1"):
        second = tf.square(bias - 1.0) * 2.0
        (gradient,) = tf.gradients(second, [bias])
    pairs = optimizer().compute_gradients(losses[0])
    optimizer().apply_gradients([*pairs, (gradient, bias)])
