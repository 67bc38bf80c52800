"""Placements: every element of a table is in exactly one place, and can be found from both ends."""

from __future__ import annotations

from typing import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.sharding import placement
from graph_opt.sharding.placement import (
    BlockRows,
    DivRows,
    ModRows,
    RowsOnRank,
    RowsRule,
    TablePlacement,
)

RANKS = st.integers(1, 16)
ROWS = st.integers(0, 70)


def _blocks(num_rows: int, num_ranks: int) -> BlockRows:
    """Every third rank has none."""
    sizes = [rank * num_rows // num_ranks if rank % 3 else 0 for rank in range(num_ranks)]
    cuts = np.minimum(np.cumsum(sizes), num_rows)
    return BlockRows(
        [*np.diff(cuts, prepend=0)[:-1].tolist(), int(num_rows - cuts[:-1].max(initial=0))]
    )


RULES = st.sampled_from(
    [ModRows, DivRows, _blocks, lambda rows, ranks: RowsOnRank(rows, ranks, ranks // 2)]
)


@given(make=RULES, num_rows=ROWS, num_ranks=RANKS)
def test_every_row_is_on_its_owner_once(
    make: Callable[[int, int], RowsRule], num_rows: int, num_ranks: int
) -> None:
    rule = make(num_rows, num_ranks)
    seen = np.zeros(num_rows, np.int64)
    for rank in range(num_ranks):
        keys = rule.keys(rank)
        assert len(keys) == rule.num_local_rows(rank)
        np.testing.assert_array_equal(rule.owner(keys), np.full(len(keys), rank))
        np.testing.assert_array_equal(rule.local_row(keys), np.arange(len(keys)))
        seen[keys] += 1
    np.testing.assert_array_equal(seen, 1)


@given(make=RULES, num_rows=ROWS, num_ranks=RANKS)
def test_ints_and_arrays_are_placed_alike(
    make: Callable[[int, int], RowsRule], num_rows: int, num_ranks: int
) -> None:
    rule = make(num_rows, num_ranks)
    keys = np.arange(num_rows)
    assert [rule.owner(int(key)) for key in keys] == list(rule.owner(keys))
    assert [rule.local_row(int(key)) for key in keys] == list(rule.local_row(keys))
    for key in range(num_rows):
        assert rule.key(rule.owner(key), rule.local_row(key)) == key


@given(rule=st.sampled_from([placement.MOD, placement.DIV]), num_rows=ROWS, num_ranks=RANKS)
def test_shares_differ_by_one_row_at_most_and_earlier_ranks_have_more(
    rule: str, num_rows: int, num_ranks: int
) -> None:
    part = placement.sharded("table", (num_rows, 3), num_ranks, rule).slices[0]
    shares = [part.shape_on(rank)[0] for rank in range(num_ranks)]
    assert sum(shares) == num_rows
    assert sorted(shares, reverse=True) == shares and shares[0] - shares[-1] <= 1


@pytest.mark.parametrize("rule", ["mod", "div"])
@pytest.mark.parametrize("num_rows, num_ranks", [(11, 3), (12, 4), (7, 5)])
def test_rows_are_where_tensorflow_looks_for_them(rule: str, num_rows: int, num_ranks: int) -> None:
    rows = placement.sharded("table", (num_rows, 1), num_ranks, rule).slices[0].rows
    with tf.Graph().as_default(), tf.Session() as session:
        shards = [tf.constant(rows.keys(rank)[:, np.newaxis]) for rank in range(num_ranks)]
        found = tf.nn.embedding_lookup(shards, np.arange(num_rows), partition_strategy=rule)
        np.testing.assert_array_equal(session.run(found)[:, 0], np.arange(num_rows))


@given(first=ROWS, count=st.integers(-1, 20))
def test_keys_come_in_blocks(first: int, count: int) -> None:
    rule = ModRows(61, 3)
    block = rule.keys(1, first, count)
    every = rule.keys(1)
    np.testing.assert_array_equal(block, every[first:] if count < 0 else every[first:][:count])


@given(width=st.integers(1, 40), data=st.data())
def test_columns_are_cut_once_and_evenly(width: int, data: st.DataObject) -> None:
    ranks = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=width))
    placed = placement.by_columns("table", (9, width), 5, ranks)
    widths = [part.width for part in placed.slices]
    assert sum(widths) == width and sorted(widths, reverse=True) == widths
    assert widths[0] - widths[-1] <= 1
    assert [part.first_column for part in placed.slices] == list(np.cumsum([0] + widths[:-1]))
    for part, rank in zip(placed.slices, ranks):
        rows = [part.shape_on(other)[0] for other in range(5)]
        assert rows == [9 * (other == rank) for other in range(5)]


def test_a_replicated_table_is_whole_on_each_rank() -> None:
    placed = placement.replicated("table", (5, 2), 3)
    assert placed.is_replicated
    assert [placed.slices[0].shape_on(rank) for rank in range(3)] == [(5, 2)] * 3


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: placement.sharded("t", (5, 2), 2, "modulo"), "no rows rule 'modulo'"),
        (lambda: placement.sharded("t", (-1, 2), 2), "-1 rows"),
        (lambda: placement.sharded("t", (5, 2), 0), "0 ranks"),
        (lambda: placement.on_rank("t", (5, 2), 2, 2), "no rank 2 among 2 ranks"),
        (lambda: placement.by_columns("t", (5, 2), 2, [0, 1, 0]), "2 columns; 3 slices"),
    ],
)
def test_what_cannot_be_placed_is_named(make: Callable[[], TablePlacement], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
