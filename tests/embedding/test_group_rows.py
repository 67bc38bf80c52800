"""Rows of many tables from one op, and groups of sequences, compared with TensorFlow's lookups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding.column_scope import group_embedding_column_scope
from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
from graph_opt.embedding.group_rows import group_embedding_lookup
from graph_opt.graph.view import GraphView
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import SAFE_EMBEDDING_LOOKUP_SPARSE
from tests.embedding.lookup_groups import IdBags, in_session, table
from tests.plain_sessions import plain_session

IDS = [[3, 1], [[0, 4, 4], [2, 2, 8]], 5, [[[1]], [[2]]]]


def group_lookups() -> int:
    operations = tf.get_default_graph().get_operations()
    return sum("GroupEmbeddingLookup" in op.type for op in operations)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_rows_are_tensorflows(use_resource: bool, strategy: str) -> None:
    """Ids of any shape; one table twice."""
    tables = [table("t{}".format(i), 9, 3 + i, use_resource, 1 + i) for i in range(3)]
    params = [*tables, tables[1]]
    ids = [tf.constant(one, tf.int64) for one in IDS]
    got = group_embedding_lookup(params, ids, strategy)
    assert group_lookups() == 1
    expected = [
        tf.nn.embedding_lookup(one, these, partition_strategy=strategy)
        for one, these in zip(params, ids)
    ]
    assert [one.shape.as_list() for one in got] == [one.shape.as_list() for one in expected]
    sources = [part for one in tables[:1] for part in [one]]
    gradients = [
        tf.convert_to_tensor(tf.gradients(tf.add_n([tf.reduce_sum(tf.sin(r)) for r in rows]), s)[0])
        for rows in (got, expected)
        for s in [sources]
    ]
    values, wanted, (gradient, wanted_gradient) = in_session([got, expected, gradients])
    for one, other in zip(values, wanted):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(gradient, wanted_gradient, rtol=1e-6)


def test_remote_tables_are_looked_up_by_tensorflow() -> None:
    with tf.device("/job:ps/task:0"):
        there = table("there", 9, 2, True)
    (rows,) = group_embedding_lookup([there], [tf.placeholder(tf.int64, [None, 2])])
    assert group_lookups() == 0 and rows.shape.as_list() == [None, 2, 2]


def test_ids_without_a_row_are_errors() -> None:
    for bad in (-1, 9):
        rows = group_embedding_lookup([table("t{}".format(bad), 9, 2, False)], [[[bad]]])
        with pytest.raises(tf.errors.InvalidArgumentError, match=str(bad)):
            in_session(rows)
    with pytest.raises(ValueError, match="group_embedding_lookup: ids has 1 entries, params has 2"):
        group_embedding_lookup([table("a", 9, 2, False), table("b", 9, 2, False)], [[1]])


BAGS = IdBags([[1, 3, -2], [], [2]], [[0.5, 2.0, 1.0], [], [3.0]])


def steps(params: Any, ids: Any, weights: Any) -> Any:
    """Each id's row, times its weight, and zeros for ids < 0."""
    rows = tf.nn.embedding_lookup(params, tf.maximum(ids, 0))
    return rows * tf.expand_dims(tf.cast(ids >= 0, tf.float32) * weights, -1)


@pytest.mark.parametrize("kind", ["sparse", "ragged", "dense"])
def test_sequences_keep_each_step(kind: str) -> None:
    params = table("t", 9, 4, False)
    dense = tf.sparse.to_dense(BAGS.sparse(), default_value=-1)
    gaps = tf.sparse.to_dense(BAGS.sparse_weights())
    if kind == "dense":
        ids, weights = dense, gaps
    elif kind == "ragged":
        ids = tf.RaggedTensor.from_sparse(BAGS.sparse())
        weights = tf.RaggedTensor.from_sparse(BAGS.sparse_weights())
    else:
        ids, weights = BAGS.sparse(), BAGS.sparse_weights()
    (alone,) = group_embedding_lookup_sparse(params, [ids], "mean", is_sequence=True)
    (weighted,) = group_embedding_lookup_sparse([params], [ids], "sum", [weights], "mod", True)
    assert alone.shape.ndims == 3 and alone.shape[-1] == 4
    expected = [steps(params, dense, tf.ones_like(gaps)), steps(params, dense, gaps)]
    for one, other in zip(*in_session([[alone, weighted], expected])):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_sequences_of_bags_are_combined_as_usual() -> None:
    indices = [[0, 0, 0], [0, 0, 1], [1, 2, 0]]
    ids = tf.SparseTensor(indices, tf.constant([1, 2, 3], tf.int64), [2, 3, 2])
    params = table("t", 9, 4, True)
    results = [
        group_embedding_lookup_sparse([params], [ids], "sum", is_sequence=is_sequence)[0]
        for is_sequence in (False, True)
    ]
    one, other = in_session(results)
    assert one.shape == (2, 3, 4)
    np.testing.assert_array_equal(one, other)


def test_ops_read_no_more_tables_than_asked() -> None:
    tables = [table("t{}".format(i), 9, 4, False) for i in range(5)]
    ids = [tf.constant([i, 1]) for i in range(5)]
    got = group_embedding_lookup_sparse(tables, ids, "sum", params_num_per_group=2)
    assert group_lookups() == 3
    everything = group_embedding_lookup_sparse(tables, ids, "sum", None, "mod", False, 7, "named")
    assert group_lookups() == 4 and everything[0].op.name.startswith("named/")
    for one, other in zip(*in_session([got, everything])):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="params_num_per_group is 0; need 1 or more"):
        group_embedding_lookup_sparse(tables, ids, "sum", params_num_per_group=0)


def test_older_positions_of_the_name() -> None:
    params, ids = table("t", 9, 4, False), tf.constant([1])
    sixth = group_embedding_lookup_sparse([params], [ids], "sum", "mod", None, "sixth")
    seventh = group_embedding_lookup_sparse([params], [ids], "sum", None, "mod", False, "seventh")
    assert sixth[0].op.name.startswith("sixth/") and seventh[0].op.name.startswith("seventh/")


def test_a_matrix_is_needed_for_a_sequence() -> None:
    with pytest.raises(ValueError, match="needs rank 2"):
        group_embedding_lookup_sparse(
            [table("t", 9, 4, False)], [tf.constant([1])], "sum", is_sequence=True
        )


def test_scripts_find_the_names_where_deeprec_has_them() -> None:
    """What DeepRec's model zoo imports; added by install() and removed again afterwards."""
    names = [
        "group_embedding_lookup", "group_embedding_lookup_sparse", "fused_embedding_lookup_sparse",
        "fused_safe_embedding_lookup_sparse",
    ]  # fmt: skip
    script = "from tensorflow.python.ops.embedding_ops import " + ", ".join(names)
    with graph_opt.install():
        found: Any = {}
        exec(script, found)
        for name in names:
            assert found[name] is getattr(tf.nn, name) is getattr(graph_opt, name)
        column = tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_identity("c", 9), 4, do_fusion=True
        )
        layer = tf.feature_column.input_layer({"c": tf.constant([[1]])}, [column])
    assert layer.shape.as_list() == [1, 4]
    assert not any(hasattr(tf.nn, name) for name in names)
    with pytest.raises(ImportError):
        exec(script, {})


def test_exported_graphs_hold_tensorflows_lookups() -> None:
    matrix = np.arange(18, dtype=np.float32).reshape([9, 2])
    (rows,) = group_embedding_lookup([tf.constant(matrix)], [[[1, 2], [8, 0]]])
    names = ["c{}".format(i) for i in range(3)]
    with group_embedding_column_scope():
        columns = [
            tf.feature_column.embedding_column(
                tf.feature_column.categorical_column_with_identity(name, 9), 4
            )
            for name in names
        ]
    tf.feature_column.input_layer({name: tf.constant([[1]]) for name in names}, columns)
    exported = tf.get_default_graph().as_graph_def()
    assert not any("GroupEmbedding" in node.op for node in exported.node)
    assert sum("_superseded_by_graph_opt" in node.attr for node in exported.node) == 0
    with tf.Graph().as_default():
        (again,) = tf.import_graph_def(exported, return_elements=[rows.name])
        with plain_session() as session:
            np.testing.assert_array_equal(session.run(again), matrix[np.array([[1, 2], [8, 0]])])
    searched = find_lookups(GraphView(exported)).lookups
    assert sum(lookup.api == SAFE_EMBEDDING_LOOKUP_SPARSE for lookup in searched) == len(names)
