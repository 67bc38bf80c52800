"""`safe_embedding_lookup_sparse`: the lookup ends with its last Reshape and knows its ids."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.rules.search import outputs, search

SAFE = "tf.nn.safe_embedding_lookup_sparse"
SPARSE = "tf.nn.embedding_lookup_sparse"


def safe(
    weighted: bool = False, rank: int = 2, resource: bool = False, **options: Any
) -> tf.Tensor:
    table = tf.get_variable("table", [10, 4], use_resource=resource)
    indices = tf.placeholder(tf.int64, [None, rank])
    shape = tf.placeholder(tf.int64, [rank])
    ids = tf.SparseTensor(indices, tf.placeholder(tf.int64, [None], name="values"), shape)
    weights = tf.SparseTensor(indices, tf.placeholder(tf.float32, [None]), shape)
    return tf.nn.safe_embedding_lookup_sparse(table, ids, weights if weighted else None, **options)


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("default_id", [None, 3])
def test_ends_with_the_last_reshape_and_knows_the_given_ids(
    default_id: Any, weighted: bool, rank: int, resource: bool
) -> None:
    pooled = safe(weighted, rank, resource, default_id=default_id)
    lookup = search().lookups[0]
    assert pooled.op.type == "Reshape"
    assert (lookup.api, str(lookup.output)) == (SAFE, pooled.name)
    assert [str(tensor) for tensor in lookup.ids] == ["values:0"]
    assert lookup.weighted == weighted


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_the_combiner_is_that_of_the_inner_lookup(combiner: str) -> None:
    safe(combiner=combiner)
    assert search().lookups[0].combiner == combiner


def test_ids_of_unknown_rank_are_recognised() -> None:
    table = tf.get_variable("table", [10, 4])
    ids = tf.sparse_placeholder(tf.int64)
    pooled = tf.nn.safe_embedding_lookup_sparse(table, ids)
    assert outputs(search()) == [(SAFE, pooled.name)]


def test_a_static_batch_is_recognised() -> None:
    table = tf.get_variable("table", [10, 4])
    ids = tf.SparseTensor(tf.placeholder(tf.int64, [5, 2]), tf.placeholder(tf.int64, [5]), [3, 2])
    pooled = tf.nn.safe_embedding_lookup_sparse(table, ids)
    assert outputs(search()) == [(SAFE, pooled.name)]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_dense_shape_that_the_user_cast_is_the_given_one(weighted: bool) -> None:
    shape = tf.cast(tf.placeholder(tf.int32, [2]), tf.int64, name="users_cast")
    indices = tf.placeholder(tf.int64, [None, 2])
    ids = tf.SparseTensor(indices, tf.placeholder(tf.int64, [None]), shape)
    weights = tf.SparseTensor(indices, tf.placeholder(tf.float32, [None]), shape)
    table = tf.get_variable("table", [10, 4])
    pooled = tf.nn.safe_embedding_lookup_sparse(table, ids, weights if weighted else None)
    found = search()
    assert outputs(found) == [(SAFE, pooled.name)]
    assert str(found.lookups[0].given["dense_shape"]) == "users_cast:0"


def test_the_users_reshape_is_not_part_of_the_lookup() -> None:
    pooled = safe()
    tf.reshape(pooled, tf.concat([tf.shape(pooled)[:1], [2, 2]], 0))
    assert outputs(search()) == [(SAFE, pooled.name)]


def test_combined_rows_that_are_also_read_before_ends_the_lookup() -> None:
    safe()
    operations = tf.get_default_graph().get_operations()
    combined = next(op for op in operations if op.type == "SparseSegmentMean").outputs[0]
    tf.nn.relu(combined)
    assert outputs(search()) == [(SPARSE, combined.name)]


def test_filled_rows_do_not_suffice_for_a_safe_lookup() -> None:
    table = tf.get_variable("table", [10, 4])
    ids = tf.sparse_placeholder(tf.int64, [None, None])
    filled, _ = tf.sparse.fill_empty_rows(ids, 0)
    pooled = tf.nn.embedding_lookup_sparse(table, filled, None, combiner="mean")
    tf.nn.relu(tf.reshape(pooled, [-1]))
    assert outputs(search()) == [(SPARSE, pooled.name)]


def test_one_that_differs_is_the_sparse_lookup_within() -> None:
    safe()
    graph_def = tf.get_default_graph().as_graph_def()
    kept = next(node for node in graph_def.node if node.op == "GreaterEqual")
    kept.op = "Greater"
    lookup = find_lookups(GraphView(graph_def)).lookups[0]
    combined = next(node for node in graph_def.node if node.op == "SparseSegmentMean")
    assert (lookup.api, lookup.output.node) == (SPARSE, combined.name)
    assert lookup.larger is not None
    assert (lookup.larger.code, lookup.larger.node) == ("lookup_differs", kept.name)
    assert lookup.larger.need == "output 0 of GreaterEqual"
