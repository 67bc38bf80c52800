"""A model on servers whose rate depends on the step counter, and a hook that watches it."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, NamedTuple

from graph_opt.compat import tf

START = 10.0
MINIMIZED, GROUPED, BY_HAND = "minimized", "grouped", "by hand"
ENDS = (MINIMIZED, GROUPED, BY_HAND)


class Counted(NamedTuple):
    """A weight that each step lowers by the rate, which halves with each step.

    Attributes:
      weight: The variable.
      step: The step counter.
      rate: The learning rate.
      update: What trains; it counts unless the train op does so by hand.
      train: The train op.
    """

    weight: Any
    step: Any
    rate: Any
    update: Any
    train: Any


def counted(
    resource: bool = True, end: str = MINIMIZED, rate_device: str = "", worker: int = 0
) -> Counted:
    """Builds the model.

    Args:
      resource: Whether variables are resources.
      end: What the train op is: the update of the counter by `minimize`, a group with it, or a
        tensor with the counter behind its update.
      rate_device: Where the rate is computed; "" for the worker.
      worker: Its task.
    """
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:{}".format(worker))
    with tf.device(setter), tf.variable_scope("", use_resource=resource):
        weight = tf.get_variable("weight", [], initializer=tf.constant_initializer(START))
        step = tf.train.get_or_create_global_step()
        with tf.device(rate_device) if rate_device else contextlib.nullcontext():
            rate = tf.train.exponential_decay(1.0, step, 1, 0.5)
        optimizer = tf.train.GradientDescentOptimizer(rate)
        loss = tf.abs(weight + 1e6)  # Its gradient is 1, however old the weight is.
        update = optimizer.minimize(loss, None if end == BY_HAND else step)
        train = update
        if end == GROUPED:
            train = tf.group(update, tf.print(loss, output_stream="file:///dev/null"))
        if end == BY_HAND:
            with tf.control_dependencies([update]):
                train = tf.assign_add(step, 1)
    return Counted(weight, step, rate, update, train)


def weight_after(steps: int, start: int = 0) -> float:
    """The weight once it was trained with the rates of these steps."""
    return START - sum(0.5**number for number in range(start, start + steps))


class Watch(tf.train.SessionRunHook):
    """Keeps what each step fetches beside the train op.

    Args:
      tensors: What to fetch, by name.
    """

    def __init__(self, tensors: Dict[str, Any]) -> None:
        self._tensors = tensors
        self._seen: List[Dict[str, Any]] = []

    def before_run(self, run_context: Any) -> Any:
        """Asks for them."""
        return tf.train.SessionRunArgs(self._tensors)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps them."""
        self._seen.append(run_values.results)

    def values(self, name: str) -> List[Any]:
        """What each step has fetched under a name."""
        return [each[name] for each in self._seen]


def on_servers(session: Any, fetches: Any) -> List[str]:
    """The nodes that a step of main runs on other tasks than the worker."""
    metadata = tf.RunMetadata()
    session.run(fetches, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
    return [
        node.name
        for part in metadata.partition_graphs
        for node in part.node
        if "/job:ps" in node.device
    ]
