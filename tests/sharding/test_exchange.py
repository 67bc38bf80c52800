"""Tables placed in every way on ranks, against TensorFlow's lookups of whole tables."""

from __future__ import annotations

from typing import Any, List, Tuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from graph_opt.compat import tf
from graph_opt.embedding.lookup_ids import read_ids
from graph_opt.sharding.exchange import ShardedTable, TableLookup, look_up
from graph_opt.sharding.in_process import run_ranks
from graph_opt.sharding.placement import (
    ModRows,
    TablePlacement,
    by_columns,
    on_rank,
    replicated,
    sharded,
)
from graph_opt.sharding.transport import OneRank
from tests.example_share import example_share
from tests.ops.exchange_ranks import ExchangeCase, LookupCase, TableCase, stock
from tests.sharding.placed_tables import DTYPES, MODES, Placed, results_on_rank


def placement_of(draw: Any, name: str, shape: Tuple[int, int], size: int) -> TablePlacement:
    kind = draw(st.sampled_from(["mod", "div", "rank", "columns", "replicated"]))
    ranks = st.integers(0, size - 1)
    if kind == "rank":
        return on_rank(name, shape, size, draw(ranks))
    if kind == "columns":
        owners = draw(st.lists(ranks, min_size=1, max_size=min(3, shape[1])))
        return by_columns(name, shape, size, owners)
    if kind == "replicated":
        return replicated(name, shape, size)
    return sharded(name, shape, size, kind)


@st.composite
def cases(draw: Any) -> Placed:
    size = draw(st.integers(1, 8))
    random = np.random.RandomState(draw(st.integers(0, 99)))
    tables, placements, lookups = [], [], []
    for place in range(draw(st.integers(1, 4))):
        shape = draw(st.integers(1, 20)), draw(st.integers(1, 9))
        dtype = tf.as_dtype(draw(st.sampled_from(sorted(DTYPES)))).as_numpy_dtype
        tables.append(TableCase((random.randint(-16, 17, size=shape) / 8.0).astype(dtype), None))
        placements.append(placement_of(draw, "table{}".format(place), shape, size))
    for place in range(len(tables) + draw(st.integers(0, 1))):
        table, weighted = place % len(tables), draw(st.booleans())
        ids = st.lists(st.integers(0, len(tables[table].values) - 1), max_size=4)
        ranks = []
        for _ in range(size):
            bags = draw(st.lists(ids, max_size=3))
            weights = [
                [draw(st.integers(-4, 8)) / 2.0 if weighted else 1.0 for _ in b] for b in bags
            ]
            ranks.append(list(zip(bags, weights)))
        combiner = draw(st.sampled_from(["sum", "mean", "sqrtn"]))
        lookups.append(LookupCase(table, combiner, weighted, ranks))
    return Placed(ExchangeCase(size, tables, lookups), placements)


def check(placed: Placed, mode: str) -> None:
    size = placed.case.size
    ranks = run_ranks(size, lambda transport: results_on_rank(placed, transport, mode), 60)
    expected = stock(placed.case)
    lowest = max(DTYPES[tf.as_dtype(table.values.dtype).name] for table in placed.case.tables)

    def close(ours: np.ndarray, theirs: np.ndarray) -> None:
        scale = lowest * (1 + np.abs(theirs).max(initial=0))
        np.testing.assert_allclose(ours, theirs, rtol=lowest, atol=scale)

    for place, theirs in enumerate(expected.pooled):
        close(np.concatenate([pooled[place] for pooled, _ in ranks]).astype(np.float32), theirs)
    for ours, theirs in zip(
        summed_gradients(placed, [slices for _, slices in ranks]), expected.tables
    ):
        close(ours, theirs)


def summed_gradients(placed: Placed, ranks: List[Any]) -> List[np.ndarray]:
    """The gradients of whole tables; those of replicated ones are not summed over ranks yet."""
    gradients = [np.zeros(table.values.shape, np.float32) for table in placed.case.tables]
    for rank, of_parts in enumerate(ranks):
        slices = iter(of_parts)
        for placement, gradient in zip(placed.placements, gradients):
            for of in placement.slices:
                rows, values = next(slices)
                columns = slice(of.first_column, of.first_column + of.width)
                gradient[of.rows.keys(rank)[rows], columns] += values.astype(np.float32)
    return gradients


@pytest.mark.slow
@example_share(0.08)
@given(placed=cases(), mode=st.sampled_from(MODES))
def test_placement_changes_no_number(placed: Placed, mode: str) -> None:
    check(placed, mode)


@pytest.mark.slow
@example_share(1.5)
@given(placed=cases(), mode=st.sampled_from(MODES))
def test_no_placement_of_many_changes_a_number(placed: Placed, mode: str) -> None:
    check(placed, mode)


def test_a_table_of_another_group_or_shape_is_named() -> None:
    with tf.Graph().as_default():
        ids = read_ids(0, tf.constant([1]), None)
        part = tf.Variable(tf.zeros([3, 2]))
        for table, message in (
            (ShardedTable("users", part, ModRows(6, 2), 2), "'users' is sharded across 2 ranks"),
            (
                ShardedTable("users", part, ModRows(6, 1), 2),
                r"'users' on rank 0 has shape \(3, 2\)",
            ),
        ):
            with pytest.raises(ValueError, match=message):
                look_up([TableLookup(table, ids, "sum")], OneRank())
