"""Weighted rows: recognised with the three combiners, as long as a batch brings the weights."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from tests.rules.search import outputs, search

SPARSE = "tf.nn.embedding_lookup_sparse"
LOOKUP = "tf.nn.embedding_lookup"
COMBINERS = ["sum", "mean", "sqrtn"]


def weighted(
    combiner: str, weights: Any = None, dtype: Any = tf.float32, **options: Any
) -> tf.Tensor:
    table = tf.get_variable("table", [10, 4], dtype=dtype)
    indices = tf.placeholder(tf.int64, [None, 2])
    shape = tf.placeholder(tf.int64, [2])
    ids = tf.SparseTensor(indices, tf.placeholder(tf.int64, [None], name="values"), shape)
    if weights is None:
        weights = tf.placeholder(dtype, [None])
    return tf.nn.embedding_lookup_sparse(
        table, ids, tf.SparseTensor(indices, weights, shape), combiner=combiner, **options
    )


def last_of(op: str, *inputs: str) -> tf.Tensor:
    """Output of the last op of a type whose first inputs have these types."""
    operations = [
        operation
        for operation in tf.get_default_graph().get_operations()
        if operation.type == op
        and [tensor.op.type for tensor in operation.inputs][: len(inputs)] == list(inputs)
    ]
    return operations[-1].outputs[0]


@pytest.mark.parametrize("combiner", COMBINERS)
def test_weighted_rows_are_recognised(combiner: str) -> None:
    pooled = weighted(combiner)
    lookup = search().lookups[0]
    assert (lookup.api, str(lookup.output)) == (SPARSE, pooled.name)
    assert (lookup.combiner, lookup.weighted) == (combiner, True)
    assert [str(tensor) for tensor in lookup.ids] == ["values:0"]


@pytest.mark.parametrize("combiner", COMBINERS)
def test_rows_of_low_precision_end_behind_the_cast_back(combiner: str) -> None:
    pooled = weighted(combiner, dtype=tf.float16)
    tf.nn.relu(pooled)
    assert pooled.op.type == "Cast"
    assert outputs(search()) == [(SPARSE, pooled.name)]
    assert search().lookups[0].combiner == combiner


@pytest.mark.parametrize("combiner", COMBINERS)
def test_the_fast_shape_without_unique_is_recognised(combiner: str) -> None:
    pooled = weighted(combiner, allow_fast_lookup=True)
    assert not [op for op in tf.get_default_graph().get_operations() if op.type == "Unique"]
    lookup = search().lookups[0]
    assert (lookup.api, str(lookup.output)) == (SPARSE, pooled.name)
    assert (lookup.combiner, lookup.weighted) == (combiner, True)
    assert [str(tensor) for tensor in lookup.ids] == ["values:0"]


@pytest.mark.parametrize("combiner", COMBINERS)
def test_weights_from_a_dense_layer_stay_outside(combiner: str) -> None:
    layer = tf.get_variable("layer", [3, 1])
    weighted(combiner, tf.squeeze(tf.matmul(tf.placeholder(tf.float32, [None, 3]), layer), 1))
    rows = last_of("Identity", "GatherV2")
    assert outputs(search()) == [(LOOKUP, rows.name)]


def test_weights_from_another_table_are_weights() -> None:
    importance = tf.get_variable("importance", [10])
    weights = tf.nn.embedding_lookup(importance, tf.placeholder(tf.int64, [None]))
    pooled = weighted("mean", weights)
    assert outputs(search()) == [(LOOKUP, weights.name), (SPARSE, pooled.name)]


def test_a_sum_that_is_also_read_before_the_division_ends_the_lookup() -> None:
    weighted("mean")
    total = last_of("SegmentSum", "Mul")
    tf.nn.relu(total)
    lookup = search().lookups[0]
    assert (str(lookup.output), lookup.combiner) == (total.name, "sum")


def test_products_that_are_also_read_end_the_lookup_at_its_rows() -> None:
    weighted("mean")
    tf.nn.relu(last_of("Mul", "GatherV2"))
    assert outputs(search()) == [(LOOKUP, last_of("Identity", "GatherV2").name)]


def test_a_division_by_something_else_is_left_outside() -> None:
    pooled = weighted("sum")
    tf.div_no_nan(pooled, tf.placeholder(tf.float32, [None, 1]))
    lookup = search().lookups[0]
    assert (str(lookup.output), lookup.combiner) == (pooled.name, "sum")


def test_products_of_rows_are_not_weighted_rows() -> None:
    ids = tf.placeholder(tf.int64, [None])
    rows = [
        tf.nn.embedding_lookup(tf.get_variable(name, [10, 4]), ids) for name in ("left", "right")
    ]
    tf.segment_sum(rows[0] * rows[1], tf.placeholder(tf.int32, [None]))
    assert outputs(search()) == [(LOOKUP, tensor.name) for tensor in rows]
