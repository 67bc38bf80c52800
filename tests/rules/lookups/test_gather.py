"""Plain gathers: which are lookups, and where these end."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from tests.rules.search import codes, outputs, search

LOOKUP = "tf.nn.embedding_lookup"


def table(resource: bool = False, shape: Any = (10, 4)) -> Any:
    return tf.get_variable("table", list(shape), use_resource=resource)


def ids() -> tf.Tensor:
    return tf.placeholder(tf.int64, [None, 3], name="ids")


@pytest.mark.parametrize("resource", [False, True])
def test_a_bare_gather_ends_at_itself(resource: bool) -> None:
    rows = tf.gather(table(resource), ids(), name="rows")
    tf.nn.relu(rows)
    assert outputs(search()) == [("tf.gather", rows.name)]
    assert search().lookups[0].ids == (("ids", 0),)


@pytest.mark.parametrize("resource", [False, True])
def test_gather_nd_reads_rows_too(resource: bool) -> None:
    rows = tf.gather_nd(table(resource), tf.placeholder(tf.int64, [None, 1]))
    assert outputs(search()) == [("tf.gather_nd", rows.name)]


def test_the_first_gather_op_reads_rows_too() -> None:
    rows = tf.raw_ops.Gather(params=tf.identity(table()), indices=ids())
    assert outputs(search()) == [("tf.gather", rows.name)]


def test_rank_one_and_integer_tables_are_tables() -> None:
    groups = tf.get_variable("groups", [10], dtype=tf.int64, initializer=tf.zeros_initializer())
    group = tf.nn.embedding_lookup(groups, ids())
    rows = tf.nn.embedding_lookup(table(), group)
    assert outputs(search()) == [(LOOKUP, group.name), (LOOKUP, rows.name)]


@pytest.mark.parametrize("axis, batch_dims", [(1, 0), (-1, 0), (1, 1)])
def test_gathers_not_by_row_are_refused(axis: int, batch_dims: int) -> None:
    chosen = tf.placeholder(tf.int64, [10, 2])
    tf.gather(tf.identity(table()), chosen, axis=axis, batch_dims=batch_dims, name="columns")
    found = search()
    assert found.lookups == ()
    assert codes(found) == [("gather_not_by_row", "columns")]


def test_an_axis_that_is_computed_is_refused() -> None:
    tf.gather(tf.identity(table()), ids(), axis=tf.placeholder(tf.int32, []), name="rows")
    assert codes(search()) == [("gather_not_by_row", "rows")]
    assert search().refusals[0].saw == "axis computed"


def test_rows_with_two_readers_end_at_what_both_read() -> None:
    rows = tf.gather(table(), ids(), name="rows")
    tf.nn.relu(tf.identity(rows))
    tf.nn.relu(rows)
    assert outputs(search()) == [("tf.gather", rows.name)]


def test_an_identity_that_waits_for_other_nodes_is_not_part_of_the_lookup() -> None:
    rows = tf.nn.embedding_lookup(table(), ids())
    with tf.control_dependencies([tf.no_op()]):
        tf.identity(rows)
    assert outputs(search()) == [(LOOKUP, rows.name)]


def test_dense_layers_after_the_rows_are_not_part_of_the_lookup() -> None:
    rows = tf.nn.embedding_lookup(table(), ids())
    tf.matmul(tf.reshape(rows, [-1, 4]), tf.get_variable("dense", [4, 2]))
    assert outputs(search()) == [(LOOKUP, rows.name)]


def test_every_lookup_of_a_shared_table_is_found() -> None:
    shared = table(True)
    rows = [tf.nn.embedding_lookup(shared, ids()), tf.nn.embedding_lookup(shared, ids())]
    found = search()
    assert outputs(found) == [(LOOKUP, tensor.name) for tensor in rows]
    assert found.lookups[0].tables == found.lookups[1].tables


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("identities", [1, 2, 3])
def test_the_users_identities_are_not_part_of_the_lookup(identities: int, resource: bool) -> None:
    rows = tf.nn.embedding_lookup(table(resource), ids())
    bare = tf.gather(tf.get_variable("other", [10, 4], use_resource=resource), ids())
    for tensor in (rows, bare):
        for _ in range(identities):
            tensor = tf.identity(tensor)
        tf.nn.relu(tensor)
    assert outputs(search()) == [(LOOKUP, rows.name), ("tf.gather", bare.name)]


def test_identities_after_clipped_rows_are_not_part_of_the_lookup() -> None:
    rows = tf.nn.embedding_lookup(table(), ids(), max_norm=1.0)
    bare = tf.clip_by_norm(tf.gather(tf.get_variable("other", [10, 4]), ids()), 1.0, axes=[2])
    tf.nn.relu(tf.identity(rows))
    tf.nn.relu(tf.identity(bare))
    assert [str(lookup.output) for lookup in search().lookups] == [rows.name, bare.name]


def test_combined_lookups_need_no_colocation() -> None:
    shared = table(True)
    pooled = tf.nn.embedding_lookup_sparse(shared, tf.sparse_placeholder(tf.int64), None)
    graph_def = tf.get_default_graph().as_graph_def()
    for node in graph_def.node:
        if "_class" in node.attr:
            del node.attr["_class"]
    found = find_lookups(GraphView(graph_def))
    assert outputs(found) == [("tf.nn.embedding_lookup_sparse", pooled.name)]
