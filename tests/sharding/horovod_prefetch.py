"""A program for each of two ranks of Horovod: an Estimator with prefetched sharded tables."""

from __future__ import annotations

import sys
from typing import Any, Callable, Optional

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import horovod
from tests.sharding.prefetched_ranks import BATCH, USERS, WIDTH, ids_of, prefetching, rank_dataset

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
    loss = tf.reduce_sum(pooled) - tf.reduce_sum(tf.cast(labels, tf.float32))
    step = tf.train.get_global_step()
    train_op = tf.train.AdagradOptimizer(0.01).minimize(loss, global_step=step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_of(rank: int, batches: int, policy: str = "") -> Callable[[], Any]:
    """An input function; its end is agreed upon if it has a policy."""

    def input_fn() -> Any:
        dataset = rank_dataset(rank, batches).map(lambda row: ({"row": row}, row % 3))
        return sok.end_together(dataset, policy) if policy else dataset

    return input_fn


def estimator_in(folder: str, session_config: Any) -> Any:
    """An Estimator of this rank."""
    run_config = tf.estimator.RunConfig(model_dir=folder, session_config=session_config)
    return tf.estimator.Estimator(model_fn, config=run_config)


def steps_of(estimator: Any, input_fn: Callable[[], Any], steps: Optional[int] = None) -> int:
    """Trains; how many steps there were."""
    counter = Counter()
    estimator.train(input_fn, hooks=[counter], steps=steps)
    return counter.steps


def check_phases(estimator: Any, rank: int) -> None:
    """Training to the end of input and not, evaluation and prediction, in turns."""
    for _ in range(2):
        assert steps_of(estimator, input_of(rank, BATCHES[rank])) == min(BATCHES)
        assert steps_of(estimator, input_of(rank, 50), 4) == 4
        estimator.evaluate(input_of(rank, 20), steps=3)
        assert len(list(estimator.predict(input_of(rank, 2)))) == 2 * BATCH
    assert estimator.get_variable_value("global_step") == 2 * (min(BATCHES) + 4)


def check_agreed_ends(estimator: Any, rank: int) -> None:
    """Ranks with different numbers of batches, by either policy."""
    for policy, expected in (("drop", min(BATCHES)), ("empty", max(BATCHES)), ("drop", 6)):
        assert steps_of(estimator, input_of(rank, BATCHES[rank], policy)) == expected, policy
        estimator.evaluate(input_of(rank, BATCHES[rank], policy))
    predictions = estimator.predict(input_of(rank, BATCHES[rank], "empty"))
    assert len(list(predictions)) == BATCHES[rank] * BATCH


def main(folder: str) -> None:
    """Runs as one of two ranks; an assertion that fails ends both."""
    horovod().init()
    sok.init()
    graph_opt.install()
    rank = sok.rank()
    for name, session_config in (("plain", None), ("prefetched", prefetching(2))):
        estimator = estimator_in("{}/{}/{}".format(folder, name, rank), session_config)
        if session_config is not None:
            check_phases(estimator, rank)
        check_agreed_ends(estimator, rank)
    print("rank {} is done".format(rank))


if __name__ == "__main__":
    main(sys.argv[1])
