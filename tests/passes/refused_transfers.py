"""For each code of a weight that travels alone, a small model; see refused_models.py."""

from __future__ import annotations

from typing import Any, Callable

from graph_opt.compat import tf
from tests.passes.refused_models import MODELS, ControlFlowV1, Inputs, Refused
from tests.passes.transfers import dense_models

Change = Callable[[Any], Any]


def travels_alone(code: str, **options: Any) -> Callable[[Change], Change]:
    """Registers a model with a layer for which `change` makes something of the kernel."""

    def register(change: Change) -> Change:
        def build(inputs: Inputs) -> None:
            with tf.device(dense_models.on_servers(1)):
                kernel = tf.get_variable("kernel", [4, 1], use_resource=True)
                logits = dense_models.layers(inputs["dense"], True, (4,))
                logits = tf.matmul(logits, change(kernel))[:, 0]
                loss = tf.reduce_mean(tf.square(logits - inputs["label"]))
                tf.train.AdagradOptimizer(0.1).minimize(loss)

        assert code not in MODELS
        MODELS[code] = Refused(build, dense_models.packing(**options))
        return change

    return register


@travels_alone("transfer_too_large", max_bytes=16 * 4)
def larger_than_the_limit(kernel: Any) -> Any:
    wide = tf.get_variable("wide", [1, 17], use_resource=True)
    return kernel * tf.reduce_sum(wide)


@travels_alone("transfer_waits")
def read_after_a_check(kernel: Any) -> Any:
    with tf.control_dependencies([tf.debugging.assert_positive(tf.timestamp())]):
        return kernel.read_value()


@travels_alone("transfer_in_control_flow")
def read_in_a_branch(kernel: Any) -> Any:
    with ControlFlowV1():
        return tf.cond(tf.timestamp() > 0, lambda: kernel * 1.0, lambda: tf.zeros([4, 1]))


@travels_alone("transfer_size_unknown")
def of_a_shape_that_may_change(kernel: Any) -> Any:
    grows = tf.get_variable("grows", [2], use_resource=False)
    tf.assign(grows, tf.ones([3]), validate_shape=False)
    return kernel * tf.reduce_sum(grows)


@travels_alone("transfer_for_initializer")
def of_which_another_starts_as_a_multiple(kernel: Any) -> Any:
    first = tf.get_variable("first", [2], use_resource=True)
    with tf.device(dense_models.WORKER):
        doubled = first * 2.0
    tf.Variable(doubled, name="second", use_resource=True)
    return kernel * tf.reduce_sum(doubled)


@travels_alone("transfer_device_unknown")
def read_by_a_worker_of_any_number(kernel: Any) -> Any:
    with tf.device(None), tf.device("/job:worker"):
        return tf.identity(kernel)
