"""A program for each of two ranks of Horovod: the input of rank 1 ends first, and steps have a
message of the script's own.

The argument says how: the message is sent at once (`free`), or `after` rows were looked up, as
`sessions` of graph_opt have it. With `empty`, ranks agree on the end of their datasets.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.compat.step_calls import own_message
from graph_opt.sharding.horovod_transport import horovod
from tests.passes.fused_models import config
from tests.plain_sessions import plain_session
from tests.sharding.guarded_model import build

BATCHES = (5, 3)


def steps_of(way: str, batches: int) -> int:
    """Trains until the input ends; how many steps there were."""
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensors(np.array([[0, 1]])).repeat(batches)
        if way == "empty":
            dataset = sok.end_together(dataset, "empty")
        ids = tf.ensure_shape(tf.data.make_one_shot_iterator(dataset).get_next(), [None, 2])
        model = build(ids)
        with tf.control_dependencies([model.total] if way == "after" else []):
            examples = tf.reduce_sum(ids)
        total = horovod().allreduce(examples, op=horovod().Sum, name="examples_" + way)
        tf.train.get_or_create_global_step()
        steps = 0
        with tf.train.MonitoredTrainingSession() as session:
            while not session.should_stop():
                session.run([model.train, total])
                steps += 1
        return steps


def number_of_ranks() -> Callable[[], Any]:
    """A step that asks all ranks, built while they can still be asked."""
    with tf.Graph().as_default():
        count = horovod().allreduce(tf.constant(1.0), op=horovod().Sum, name="count")
        session = plain_session()
    return lambda: session.run(count)


def main(way: str) -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    horovod().init()
    sok.init()
    if way == "sessions":
        graph_opt.install(config())
    count = number_of_ranks()
    for _ in range(2):  # that end alike
        assert steps_of(way, min(BATCHES)) == min(BATCHES)
    assert steps_of(way, BATCHES[sok.rank()]) == (max if way == "empty" else min)(BATCHES)
    if way != "free":
        assert count() == 2.0
    else:
        try:
            raise AssertionError("{} ranks go on".format(count()))
        except tf.errors.UnknownError as error:
            told = own_message(error)
            assert told.startswith("rank 1 has no input left, and others may wait for it"), told
            assert "'examples_free'" in told
    print("rank {} is done".format(sok.rank()))


if __name__ == "__main__":
    main(sys.argv[1])
