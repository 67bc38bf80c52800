"""Rules that move and remove rows while lookups run ahead: no batch ever has another key's row."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.dynamic.options import LFU, LRU, DynamicTableOptions, LeastValuable, Tiers
from graph_opt.dynamic.variable import DynamicTableVariable
from graph_opt.sharding.initializers import Constant

DIM, BATCH, STEPS = 4, 64, 120
# Each update subtracts a row's key, so a row is 1 less a multiple of its own prime.
_NUMBERS = np.arange(10000, 60000)
PRIMES = _NUMBERS[(_NUMBERS[:, np.newaxis] % np.arange(2, 250) != 0).all(axis=1)]
FROM_ONE = DynamicTableOptions(Constant(1.0))


def options_of(rule: str, folder: Path) -> DynamicTableOptions:
    if rule == "tiers":
        return FROM_ONE._replace(tiers=Tiers(4 * 1024 * 4 * DIM, str(folder)))
    return FROM_ONE._replace(capacity=100, eviction=LeastValuable(rule))


@pytest.mark.parametrize("rule", [LRU, LFU, "tiers"])
def test_rows_that_were_looked_up_ahead_stay_those_of_their_keys(rule: str, tmp_path: Path) -> None:
    table = DynamicTableVariable("table", DIM, options_of(rule, tmp_path))
    random = np.random.RandomState(4)
    drawn = PRIMES[(random.zipf(1.3, [STEPS, BATCH]) - 1) % len(PRIMES)]
    batches = tf.data.Dataset.from_tensor_slices(drawn)
    keys = tf.unique(tf.data.make_one_shot_iterator(batches).get_next()).y
    rows = tf.nn.embedding_lookup(table, keys)
    loss = tf.reduce_sum(rows * tf.cast(keys, tf.float32)[:, tf.newaxis])
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    exported = table.export()
    rare_first = tf.nn.embedding_lookup(table, PRIMES[::-1])
    config = graph_opt.ConfigProto()
    options = config.graph_options.optimizer_options
    options.do_group_embedding = True
    options.do_async_embedding = True
    options.async_embedding_options.threads_num = 2
    options.async_embedding_options.capacity = 4
    options.async_embedding_options.infer_io_stage = True
    with graph_opt.train.MonitoredTrainingSession(config=config) as session:
        if rule == "tiers":
            session.run(rare_first)
        for _ in range(STEPS):
            _, of_keys, read = session.run([train, keys, rows])
            check_rows(of_keys, read)
        left = session.run(exported)
        metrics = graph_opt.table_metrics(session)["table"]
    check_rows(left.keys, left.values)
    assert (left.values != 1).any(axis=1).sum() > 50
    assert "1 of 2 lookups moved" in str(graph_opt.report())
    if rule == "tiers":
        assert metrics["promoted"] > 0
        assert metrics["file_bytes"] > 0
    else:
        assert metrics["evicted"] > 100


def check_rows(keys: np.ndarray, rows: np.ndarray) -> None:
    multiples = (rows - 1.0) / keys[:, np.newaxis]
    np.testing.assert_array_equal(multiples, np.round(multiples))
