"""A model over sharded tables that each rank trains, with exact rows ahead of time and without.

As a program of each of two ranks of Horovod, it compares both.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.horovod_transport import HorovodTransport, horovod
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.optimizer_models import STOCK
from tests.session.small_model import report_on
from tests.session.test_exact_rows import VOCABULARY, batches, config, sparse, weights_of

Lookups = Callable[[Dict[str, Any]], List[Any]]


class RankRun(NamedTuple):
    """A training of one rank.

    Attributes:
      losses: Of each step.
      variables: At the end, slots included.
      changed: How many ids of each step had a row with a new value.
      report: What was done to the graph.
    """

    losses: List[float]
    variables: Dict[str, np.ndarray]
    changed: List[int]
    report: Any


def table(name: str, width: int, mode: Optional[str] = None, dtype: Any = np.float32) -> Any:
    """A sharded table."""
    values = np.random.RandomState(width).uniform(-1, 1, [VOCABULARY, width])
    return sok.Variable(values.astype(dtype), mode=mode, name=name)


def every_kind(inputs: Dict[str, Any]) -> List[Any]:
    """Several lookups of one table, weights, empty bags, tables of one rank alone."""
    shared, first, last = table("shared", 4), table("first", 3, "localized:0"), table("last", 5)
    bags, ones = sparse(inputs), sparse({"bags": tf.cast(inputs["one"], tf.int64)[:, None]})
    some = tf.sparse.retain(bags, tf.equal(bags.values % 2, 0))
    return list(
        sok.lookup_sparse(
            [shared, shared, first, last, last],
            [bags, ones, some, bags, some],
            [None, None, None, weights_of(inputs), None],
            combiners=["mean", "sum", "sum", "sum", "sqrtn"],
        )
    )


def train(
    transport: Transport,
    lookups: Lookups,
    options: Any,
    optimizer: str = "adagrad",
    steps: int = 12,
    seed: int = 0,
) -> RankRun:
    """Trains a rank to the end of its input."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        inputs = batches(steps, 10 * seed + transport.rank)
        hidden = [tf.cast(one, tf.float32) for one in lookups(inputs)]
        logits = tf.layers.dense(tf.concat(hidden, 1), 1, kernel_initializer=tf.ones_initializer())
        loss = tf.losses.mean_squared_error(inputs["label"], logits)
        step = STOCK[optimizer]().minimize(loss, tf.train.get_or_create_global_step())
        variables = {variable.op.name: variable for variable in tf.global_variables()}
        losses: List[float] = []
        changed: List[int] = []
        with graph_opt.Session(config=options) as session:
            session.run(tf.global_variables_initializer())
            fetches = [loss, step]
            while True:
                try:
                    values = session.run(fetches)
                except tf.errors.OutOfRangeError:
                    break
                losses.append(values[0])
                changed.append(sum(int(counts[1]) for counts in values[2:]))
                fetches = [loss, step, *_counts(graph)]
            return RankRun(losses, session.run(variables), changed, report_on(graph))


def assert_exact(exact: RankRun, fused: RankRun, lookups: int) -> None:
    """Both have the same bits, and the lookups of one ran ahead with rows that had changed."""
    assert_same_bits(exact, fused, lookups)
    assert sum(exact.changed) > len(exact.losses)


def assert_same_bits(exact: RankRun, fused: RankRun, lookups: int) -> None:
    """Both have the same bits, and the lookups of one ran ahead."""
    assert sum(one.count for one in exact.report.lookups if one.outcome == "moved") == lookups
    np.testing.assert_array_equal(exact.losses, fused.losses)
    for name, value in fused.variables.items():
        np.testing.assert_array_equal(exact.variables[name], value, err_msg=name)


def _counts(graph: Any) -> List[Any]:
    operations = graph.get_operations()
    return [one.outputs[-1] for one in operations if one.type == "ExchangeRefresh"]


def main(optimizers: Sequence[str]) -> None:
    """Trains as one of the ranks of Horovod; an assertion that fails ends all."""
    horovod().init()
    transport = HorovodTransport()
    for optimizer in optimizers:
        fused = train(transport, every_kind, config(), optimizer, 200)
        assert len(fused.losses) == 200
        for threads, capacity in ((1, 1), (1, 4), (4, 1), (4, 4)):
            exact = train(transport, every_kind, config(threads, capacity), optimizer, 200)
            assert_exact(exact, fused, 5)
    print("rank {} is done".format(transport.rank))


if __name__ == "__main__":
    main(sys.argv[1:])
