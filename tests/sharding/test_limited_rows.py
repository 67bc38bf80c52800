"""Rows of sharded tables miss as many updates as their tables' limits allow."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.runtime.sources import wait_until
from tests.session.small_model import report_on
from tests.session.test_exact_rows import config, sparse

ROWS, STEPS, CAPACITY = 6, 24, 6
LIMITS = {"exact": 0, "limited": 2}


def _options() -> Any:
    options = config(1, CAPACITY, exact=False)
    wanted = options.graph_options.optimizer_options.async_embedding_options
    for table, updates in LIMITS.items():
        wanted.staleness_limit.add(table=table, updates=updates)
    return options


def _missed(transport: InProcessTransport) -> List[List[float]]:
    """How many updates the rows of each table missed in each step; every step updates all rows."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        data = tf.data.Dataset.from_tensors(np.arange(ROWS, dtype=np.int64)[:, None]).repeat(STEPS)
        ids = sparse({"bags": tf.data.make_one_shot_iterator(data).get_next()})
        zeros = np.zeros([ROWS, 4], np.float32)
        tables = [sok.Variable(zeros, name=name) for name in ("exact", "limited", "free")]
        rows = sok.lookup_sparse(tables, [ids] * 3, combiners=["sum"] * 3)
        # The gradient is 1 whatever a row has, and yet is computed from it.
        loss = tf.add_n([tf.reduce_sum(each + 0.0 * tf.square(each)) for each in rows])
        train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        used = []
        with graph_opt.Session(config=_options()) as session:
            session.run(tf.global_variables_initializer())
            for step in range(STEPS):
                if 0 < step < STEPS - CAPACITY:
                    wait_until(lambda: _waiting(session) == CAPACITY, "a full buffer")
                used.append([value[:, 0] for value in session.run([rows, train])[0]])
        assert [one.outcome for one in report_on(graph).lookups] == ["moved"] * 3
        assert len(np.unique(used[-1][0])) == 1
        of_update = -used[1][0][0]
        return [
            [step + np.min(values[table]) / of_update for step, values in enumerate(used)]
            for table in range(3)
        ]


def _waiting(session: Any) -> int:
    return int(graph_opt.metrics(session)["async_embedding"]["size"])


@pytest.mark.slow
def test_rows_miss_as_many_as_they_may() -> None:
    for exact, limited, free in run_ranks(2, _missed, 60):
        assert not any(exact)
        assert max(limited) == 2 and min(limited) >= 0
        assert max(free) > 2
