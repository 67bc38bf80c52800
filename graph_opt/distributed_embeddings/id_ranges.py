"""Ids of tables whose rows are a range of a larger table's."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf


class IdRange(NamedTuple):
    """The rows of a table within a larger one.

    Attributes:
      table: Name of the table, for errors.
      num_rows: Its rows.
      first_row: The row of the larger table that is the first of them.
    """

    table: str
    num_rows: int
    first_row: int


def rows_of_ids(
    ids: Sequence[tf.Tensor], ranges: Sequence[IdRange], same_batch: bool
) -> List[tf.Tensor]:
    """The rows of the larger tables that ids of the smaller ones are.

    An id that a table does not have is an error, never a neighbour's row.

    Args:
      ids: int32 or int64, of any shapes.
      ranges: Of each.
      same_batch: Whether all dense ids have a row for each sample of one batch.

    Returns:
      int64, of the same shapes.

    Raises:
      tf.errors.InvalidArgumentError: At run time, an id is not in [0, num_rows).
    """
    alike = {_static_sizes(one, same_batch) for one in ids}
    if len(ids) == 1 or (len(alike) == 1 and None not in next(iter(alike)) and ids[0].shape.rank):
        return _rows_of_alike(ids, ranges)
    return _rows_of_different(ids, ranges)


def _static_sizes(ids: tf.Tensor, same_batch: bool) -> Tuple[Optional[int], ...]:
    """The sizes that tell whether ids are alike; None where that is not known.

    Rows of dense ids are as many as the samples of the batch, whatever their number. Ids of bags of
    any sizes are one after another, and as many as there happen to be.
    """
    if ids.shape.rank is None:
        return (None,)
    sizes = tuple(ids.shape.as_list())
    return sizes[1:] if same_batch and len(sizes) > 1 else sizes


def _rows_of_alike(ids: Sequence[tf.Tensor], ranges: Sequence[IdRange]) -> List[tf.Tensor]:
    """Of ids of one shape; the same number of ops, however many there are."""
    stacked = tf.stack([tf.cast(one, tf.int64) for one in ids])
    per_table = [-1] + [1] * (stacked.shape.rank - 1) if stacked.shape.rank is not None else None
    if per_table is None:
        return _rows_of_different(ids, ranges)
    sizes, firsts = (
        np.array([getattr(one, name) for one in ranges], np.int64).reshape(per_table)
        for name in ("num_rows", "first_row")
    )
    flat = tf.reshape(stacked, [-1])
    fits = tf.reshape((stacked >= 0) & (stacked < sizes), [-1])
    per_ids = tf.maximum(tf.size(stacked, out_type=tf.int64) // len(ids), 1)
    with tf.control_dependencies(_checks(flat, fits, ranges, lambda place: place // per_ids)):
        return tf.unstack(stacked + firsts, num=len(ids))


def _rows_of_different(ids: Sequence[tf.Tensor], ranges: Sequence[IdRange]) -> List[tf.Tensor]:
    flat = tf.concat([tf.reshape(tf.cast(one, tf.int64), [-1]) for one in ids], axis=0)
    counts = tf.stack([tf.size(one) for one in ids])
    number = tf.repeat(tf.range(len(ids)), counts)
    sizes = tf.gather(tf.constant([one.num_rows for one in ranges], tf.int64), number)
    firsts = tf.gather(tf.constant([one.first_row for one in ranges], tf.int64), number)
    ends = tf.cast(tf.cumsum(counts), tf.int64)

    def table_of(place: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(ends <= place, tf.int64))

    with tf.control_dependencies(_checks(flat, (flat >= 0) & (flat < sizes), ranges, table_of)):
        parts = tf.split(flat + firsts, counts, num=len(ids))
    return [tf.reshape(part, tf.shape(one)) for part, one in zip(parts, ids)]


def _checks(flat: tf.Tensor, fits: tf.Tensor, ranges: Sequence[IdRange], table_of: Any) -> Any:
    """An op that fails with the first id that its table does not have."""
    # A last one that never fits: so there is a first one to look for, and it may be of no table.
    first = tf.argmin(tf.concat([tf.cast(fits, tf.int32), [0]], axis=0))
    table = tf.minimum(table_of(first), len(ranges) - 1)
    check = tf.raw_ops.Assert(
        condition=tf.equal(first, tf.size(flat, out_type=tf.int64)),
        data=[
            "table",
            tf.gather([one.table for one in ranges], table),
            "has no row",
            tf.concat([flat, [0]], axis=0)[first],
            "; its number of rows is",
            tf.gather(tf.constant([one.num_rows for one in ranges], tf.int64), table),
        ],
    )
    return [] if check is None else [check]
