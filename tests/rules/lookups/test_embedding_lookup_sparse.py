"""Combined rows with and without weights, and where the lookup ends if inner nodes are shared."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from tests.rules.search import outputs, search

SPARSE = "tf.nn.embedding_lookup_sparse"
LOOKUP = "tf.nn.embedding_lookup"
COMBINERS = ["sum", "mean", "sqrtn"]


def sparse_ids() -> tf.SparseTensor:
    return tf.SparseTensor(
        tf.placeholder(tf.int64, [None, 2], name="indices"),
        tf.placeholder(tf.int64, [None], name="values"),
        tf.placeholder(tf.int64, [2], name="shape"),
    )


def bags_of(ids: tf.SparseTensor) -> Any:
    """As every release takes them."""
    return tf.cast(ids.indices[:, 0], tf.int32)


def of_op(*ops: str) -> Any:
    graph = tf.get_default_graph()
    return [op for op in graph.get_operations() if op.type in ops]


@pytest.mark.parametrize(
    "table_device, resource, gather",
    [
        ("", False, "SparseSegmentMean"),
        ("/job:ps/task:0", False, "GatherV2"),
        ("", True, "ResourceGather"),
    ],
    ids=["fast", "classic", "resource"],
)
def test_fast_and_classic_shapes_are_one_api(
    table_device: str, resource: bool, gather: str
) -> None:
    with tf.device(table_device):
        table = tf.get_variable("table", [10, 4], use_resource=resource)
    pooled = tf.nn.embedding_lookup_sparse(table, sparse_ids(), None, combiner="mean")
    readers = [op.name for op in of_op(gather)]
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(tf.nn.relu(pooled)))
    found = search()
    assert outputs(found) == [(SPARSE, pooled.name)]
    assert list(found.lookups[0].gathers) == readers
    assert [str(tensor) for tensor in found.lookups[0].ids] == ["values:0"]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_segments_with_their_number_given_are_recognised(combiner: str) -> None:
    table = tf.identity(tf.get_variable("table", [10, 4]))
    combine = {
        "sum": tf.sparse.segment_sum,
        "mean": tf.sparse.segment_mean,
        "sqrtn": tf.sparse.segment_sqrt_n,
    }[combiner]
    ids = sparse_ids()
    pooled = combine(table, ids.values, bags_of(ids), num_segments=7)
    assert outputs(search()) == [(SPARSE, pooled.name)]
    assert search().lookups[0].combiner == combiner


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
@pytest.mark.parametrize("resource", [False, True])
def test_rows_of_low_precision_are_recognised(dtype: Any, resource: bool) -> None:
    table = tf.get_variable("table", [10, 4], dtype=dtype, use_resource=resource)
    pooled = tf.nn.embedding_lookup_sparse(table, sparse_ids(), None, combiner="mean")
    assert outputs(search()) == [(SPARSE, pooled.name)]


def test_rows_cast_before_they_are_combined_are_recognised() -> None:
    table = tf.get_variable("table", [10, 4], dtype=tf.float16, use_resource=True)
    ids = sparse_ids()
    unique, places = tf.unique(ids.values)
    rows = tf.cast(tf.nn.embedding_lookup(table, unique), tf.float32)
    pooled = tf.sparse.segment_mean(rows, places, bags_of(ids))
    assert outputs(search()) == [(SPARSE, pooled.name)]


def test_rows_that_are_also_read_one_by_one_end_the_lookup() -> None:
    table = tf.get_variable("table", [10, 4], use_resource=True)
    tf.nn.embedding_lookup_sparse(table, sparse_ids(), None, combiner="mean")
    rows = next(op for op in of_op("Identity") if op.inputs[0].op.type == "ResourceGather")
    tf.nn.relu(rows.outputs[0])
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.outputs[0].name)]


def test_rows_combined_twice_end_the_lookup() -> None:
    table = tf.get_variable("table", [10, 4], use_resource=True)
    ids = sparse_ids()
    unique, places = tf.unique(ids.values)
    rows = tf.nn.embedding_lookup(table, unique)
    tf.sparse.segment_mean(rows, places, bags_of(ids))
    tf.sparse.segment_sum(rows, places, bags_of(ids))
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]


def test_rows_combined_by_other_places_are_left_uncombined() -> None:
    table = tf.get_variable("table", [10, 4], use_resource=True)
    ids = sparse_ids()
    unique, _ = tf.unique(ids.values)
    rows = tf.nn.embedding_lookup(table, unique)
    tf.sparse.segment_mean(rows, tf.placeholder(tf.int32, [None]), bags_of(ids))
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]


def test_segments_of_something_else_are_not_a_lookup() -> None:
    ids = sparse_ids()
    tf.sparse.segment_mean(tf.placeholder(tf.float32, [10, 4]), ids.values, bags_of(ids))
    assert search().lookups == ()


@pytest.mark.parametrize("combine", [tf.unique, tf.unique_with_counts])
def test_ids_made_unique_either_way_are_the_given_ids(combine: Any) -> None:
    table = tf.get_variable("table", [10, 4])
    ids = sparse_ids()
    unique = combine(ids.values)
    rows = tf.nn.embedding_lookup(table, unique[0])
    tf.sparse.segment_mean(rows, unique[1], bags_of(ids))
    assert [str(tensor) for tensor in search().lookups[0].ids] == ["values:0"]


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
def test_rows_of_low_precision_end_with_the_cast_back(combiner: str) -> None:
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


def test_a_division_by_something_else_is_not_part_of_the_lookup() -> None:
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
