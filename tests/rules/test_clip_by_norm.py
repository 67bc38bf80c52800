"""Clipped rows: recognised as `max_norm`, unless the norm is no constant."""

from __future__ import annotations

from typing import Any, Tuple

import pytest

from graph_opt.compat import tf
from tests.rules.search import outputs, search


def clipped(norm: Any, partitions: int = 1) -> Tuple[tf.Tensor, tf.Tensor]:
    """(rows as they were read, the same clipped)."""
    partitioner = tf.fixed_size_partitioner(partitions) if partitions > 1 else None
    table = tf.get_variable("table", [10, 4], partitioner=partitioner)
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None]))
    return rows, tf.clip_by_norm(rows, norm, axes=[1])


@pytest.mark.parametrize("partitions", [1, 2])
def test_rows_clipped_by_hand_are_clipped_rows(partitions: int) -> None:
    _, short = clipped(1.0, partitions)
    lookup = search().lookups[0]
    assert str(lookup.output) == short.name
    assert lookup.max_norm
    assert short.op.inputs[0].op.name in lookup.nodes


def test_a_norm_that_is_trained_stays_outside() -> None:
    rows, _ = clipped(tf.get_variable("norm", []))
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]


def test_rows_that_are_also_read_unclipped_stay_unclipped() -> None:
    rows, short = clipped(1.0)
    tf.concat([rows, short], 1)
    lookup = search().lookups[0]
    assert (str(lookup.output), lookup.max_norm) == (rows.name, False)


def test_a_product_with_something_else_is_no_clipping() -> None:
    table = tf.get_variable("table", [10, 4])
    rows = tf.nn.embedding_lookup(table, tf.placeholder(tf.int64, [None]))
    scale = tf.maximum(tf.placeholder(tf.float32, []), 1.0)
    tf.divide(rows * 2.0, scale)
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]
