"""A program for each of two ranks of Horovod: an Estimator with prefetched divided tables."""

from __future__ import annotations

import sys
from typing import Any, Callable

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.sharding.prefetched_ranks import USERS, WIDTH, ids_of, prefetching, rank_dataset

BATCHES = (9, 6)


class Counter(tf.train.SessionRunHook):
    """Counts steps."""

    def __init__(self) -> None:
        self.steps = 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.steps += 1


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """One table."""
    rows = np.random.RandomState(3).rand(USERS, WIDTH).astype(np.float32)
    users = sok.Variable(rows, name="users")
    (pooled,) = sok.lookup_sparse([users], [ids_of(features["row"] * 7 % USERS)], None, ["sum"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"pooled": pooled})
    loss = tf.reduce_mean(pooled) - tf.reduce_mean(tf.cast(labels, tf.float32))
    step = tf.train.get_global_step()
    train_op = tf.train.AdagradOptimizer(0.01).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_of(rank: int, batches: int) -> Callable[[], Any]:
    """An input function."""
    return lambda: rank_dataset(rank, batches).map(lambda row: ({"row": row}, row % 3))


def main(folder: str) -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    horovod().init()
    sok.init()
    graph_opt.install()
    rank = sok.rank()
    config = tf.estimator.RunConfig(
        model_dir="{}/{}".format(folder, rank), session_config=prefetching(2)
    )
    estimator = tf.estimator.Estimator(model_fn, config=config)
    for _ in range(2):
        for batches, steps, expected in ((BATCHES[rank], None, min(BATCHES)), (50, 4, 4)):
            counter = Counter()
            estimator.train(input_of(rank, batches), hooks=[counter], steps=steps)
            assert counter.steps == expected, counter.steps
        estimator.evaluate(input_of(rank, 20), steps=3)
        assert len(list(estimator.predict(input_of(rank, 2)))) == 10
    assert estimator.get_variable_value("global_step") == 2 * (min(BATCHES) + 4)
    print("rank {} is done".format(rank))


if __name__ == "__main__":
    main(sys.argv[1])
