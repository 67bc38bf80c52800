"""Sharded tables trained by Keras' own optimizers, as those of one process."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest
import tensorflow
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.transport import Transport
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but

SHAPES = ((23, 4), (9, 3))
MODES = (None, "localized:1")
BATCH, HOT = 6, 3
CUTS = [0, 0, 2, BATCH]  # of three ranks one has no bags
KERAS = tensorflow.keras.optimizers
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "adam": lambda: KERAS.Adam(0.05),
    "adagrad": lambda: KERAS.Adagrad(0.5),
    "momentum": lambda: KERAS.SGD(0.1, momentum=0.9),
    "legacy.adam": lambda: KERAS.legacy.Adam(0.05),
}


def first_tables() -> List[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in SHAPES]


def ids_of(step: int, table: int) -> np.ndarray:
    random = np.random.default_rng([step, table])
    return random.integers(0, SHAPES[table][0], [BATCH, HOT])


def train(
    tables: List[Any], look_up: Callable[[List[Any]], Any], name: str, bags: slice, traced: bool
) -> None:
    optimizer = OPTIMIZERS[name]()

    def step(*ids: Any) -> None:
        with tf.GradientTape() as tape:
            losses = [tf.reduce_sum(tf.square(one - 0.3)) for one in look_up(list(ids))]
            loss = tf.add_n(losses)
        optimizer.apply_gradients(zip(tape.gradient(loss, tables), tables))

    if hasattr(optimizer, "build"):
        optimizer.build(tables)
    run = tf.function(step) if traced else step
    for number in range(12):
        run(*[tf.constant(ids_of(number, table)[bags]) for table in range(len(SHAPES))])


def on_rank(transport: Transport, name: str, traced: bool) -> List[Tuple[np.ndarray, np.ndarray]]:
    with communicating_through(transport), context.eager_mode():
        tables = [
            sok.Variable(values, mode=mode, name="table_{}".format(place))
            for place, (values, mode) in enumerate(zip(first_tables(), MODES))
        ]

        def look_up(ids: List[Any]) -> Any:
            bags = [tf.RaggedTensor.from_tensor(one) for one in ids]
            return sok.lookup_sparse(tables, bags, combiners=["sum", "mean"])

        rank = transport.rank
        train(tables, look_up, name, slice(CUTS[rank], CUTS[rank + 1]), traced)
        return [(table.rows.keys(rank), table.numpy()) for table in tables]


def in_one_process(name: str) -> List[np.ndarray]:
    with context.eager_mode():
        tables = [tf.Variable(values, use_resource=True) for values in first_tables()]

        def look_up(ids: List[Any]) -> Any:
            rows = [tf.gather(table, one) for table, one in zip(tables, ids)]
            return [tf.reduce_sum(rows[0], axis=1), tf.reduce_mean(rows[1], axis=1)]

        train(tables, look_up, name, slice(0, BATCH), traced=True)
        return [table.numpy() for table in tables]


@pytest.mark.parametrize("name", slow_but(sorted(OPTIMIZERS), "adam"))
def test_keras_trains_parts_as_one_table(name: str) -> None:
    traced = name != "adam"
    ranks = run_ranks(3, lambda transport: on_rank(transport, name, traced), 120)
    for table, theirs in enumerate(in_one_process(name)):
        ours = np.full_like(theirs, np.nan)
        for parts in ranks:
            keys, rows = parts[table]
            ours[keys] = rows
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
