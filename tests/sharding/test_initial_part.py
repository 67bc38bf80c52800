"""Initializers of every kind: a table starts the same however it is sharded."""

from __future__ import annotations

import logging
from typing import Any, List

import numpy as np
import pytest
from tensorflow.python.eager import context

from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding import initial_part as module
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.initial_part import initial_part
from graph_opt.sharding.placement import TablePlacement, by_columns, on_rank, sharded
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sok.communication import communicating_through
from tests.quick_cases import slow_but

SHAPE = (11, 4)
TABLE = np.arange(44, dtype=np.float32).reshape(SHAPE)


def drawn_by_a_function(shape: Any, dtype: Any) -> tf.Tensor:
    return tf.random.normal(shape, dtype=dtype) + tf.random_uniform(shape, dtype=dtype)


def joined(initializer: Any, placement: TablePlacement, num_ranks: int) -> np.ndarray:
    table = np.full(SHAPE, np.nan, np.float32)
    for rank in range(num_ranks):
        with tf.Graph().as_default(), tf.Session() as session:
            for _ in range(rank):  # graphs differ in what else they hold
                tf.random.normal([3])
            for of in placement.slices:
                part = initial_part(initializer, of, rank, SHAPE[1], tf.float32, "table")
                columns = slice(of.first_column, of.first_column + of.width)
                table[of.rows.keys(rank), columns] = session.run(part)
    return table


def placements(num_ranks: int) -> List[TablePlacement]:
    return [
        sharded("table", SHAPE, num_ranks),
        sharded("table", SHAPE, num_ranks, "div"),
        on_rank("table", SHAPE, num_ranks, num_ranks - 1),
        by_columns("table", SHAPE, num_ranks, [0, num_ranks - 1]),
    ]


@pytest.mark.parametrize("most_elements", slow_but([1 << 26, 12], 12))
def test_a_function_starts_the_same_rows_on_any_number_of_ranks(
    most_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_ELEMENTS", most_elements)
    for initializer in (drawn_by_a_function, "uniform", tf.keras.initializers.RandomNormal()):
        alone = joined(initializer, sharded("table", SHAPE, 1), 1)
        assert len(np.unique(alone)) == alone.size
        for placement in placements(3):
            np.testing.assert_array_equal(joined(initializer, placement, 3), alone)


def test_an_initializer_of_the_whole_table_gives_each_rank_its_rows() -> None:
    orthogonal = tf.keras.initializers.Orthogonal()
    for placement in placements(2):
        columns = joined(orthogonal, placement, 2)
        np.testing.assert_allclose(columns.T @ columns, np.eye(4), atol=1e-5)
        for initializer, values in (
            (tf.constant_initializer(TABLE), TABLE),
            (tf.keras.initializers.Identity(), np.eye(*SHAPE)),
            (lambda shape, dtype: TABLE.astype(dtype.as_numpy_dtype), TABLE),
        ):
            np.testing.assert_array_equal(joined(initializer, placement, 2), values)


def test_another_shape_is_named() -> None:
    part = sharded("users", SHAPE, 2).slices[0]
    with tf.Graph().as_default(), pytest.raises(ValueError, match="'users' returned shape"):
        initial_part(lambda shape, dtype: tf.zeros([2, 4]), part, 0, 4, tf.float32, "users")


def test_eager_tables_of_one_name_start_with_different_values() -> None:
    def start(transport: Transport) -> np.ndarray:
        with communicating_through(transport), context.eager_mode():
            tables = [sok.Variable(shape=SHAPE, initializer="uniform", name="t") for _ in "ab"]
            rows = np.full((2, *SHAPE), np.nan, np.float32)
            for table, to in zip(tables, rows):
                to[table.rows.keys(transport.rank)] = table.numpy()
            return rows

    first, second = start(OneRank())
    assert np.abs(first - second).min() > 0
    parts = run_ranks(2, start, 60)
    np.testing.assert_array_equal(np.where(np.isnan(parts[0]), parts[1], parts[0]), [first, second])


def test_many_tables_start_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("tensorflow")
    logger.addHandler(caplog.handler)
    try:
        with communicating_through(OneRank()), context.eager_mode():
            for _ in range(8):
                sok.Variable(shape=SHAPE, initializer=drawn_by_a_function)
    finally:
        logger.removeHandler(caplog.handler)
    assert caplog.messages == []
