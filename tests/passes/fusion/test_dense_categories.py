"""Graphs that serve compute ids of dense strings without SparseTensors, and look up the same."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.config.options import session_options
from graph_opt.graph.rewrite import apply_to_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.ops.library import load_library
from graph_opt.passes.optimize import plan
from tests.passes.fused_models import config

BUCKETS, WIDTH = 7, 3
WORDS = ["a", "b", "c"]
TEXTS = np.array(
    [[b"a", b"", b"c"], [b"", b"", b""], [b"x", b"b", b"b"], [b"y", b"z", b""]], object
)
NUMBERS = np.array([[3, -1, 5], [-1, -1, -1], [9, 9, 0], [70, -1, -1]])
column = tf.feature_column


def of_files(folder: Any) -> Any:
    (folder / "words").write_text("\n".join(WORDS) + "\n")
    return column.categorical_column_with_vocabulary_file("x", str(folder / "words"))


COLUMNS: Dict[str, Callable[[Any], Any]] = {
    "hashed": lambda _: column.categorical_column_with_hash_bucket("x", BUCKETS),
    "listed": lambda _: column.categorical_column_with_vocabulary_list("x", WORDS),
    "listed with others": lambda _: column.categorical_column_with_vocabulary_list(
        "x", WORDS, num_oov_buckets=2
    ),
    "listed by default": lambda _: column.categorical_column_with_vocabulary_list(
        "x", WORDS, default_value=1
    ),
    "in a file": of_files,
    "hashed numbers": lambda _: column.categorical_column_with_hash_bucket("x", BUCKETS, tf.int64),
    "listed numbers": lambda _: column.categorical_column_with_vocabulary_list("x", [3, 5, 9]),
}


def fused(graph_def: Any, output: str) -> Any:
    """The graph as an export has it, and the ops that a request runs."""
    options = dataclasses.replace(session_options(config()), served=(frozenset([output]),))
    planned = plan(graph_def, options)
    rewritten = apply_to_graph_def(graph_def, *planned.rewrites)
    return planned, rewritten


def predicted(graph_def: Any, values: np.ndarray) -> Any:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.import_graph_def(graph_def, name="")
        session.run(["init_all", "init_tables"])
        ids = graph.get_tensor_by_name("x:0")
        return [session.run("result:0", {ids: values[:rows]}) for rows in (4, 1, 0)]


def column_graph(made: Any, values: np.ndarray, shape: List[Any]) -> Any:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.string if values.dtype == object else tf.int64, shape, name="x")
        embedded = column.embedding_column(
            made, WIDTH, initializer=tf.random_normal_initializer(seed=1)
        )
        tf.identity(tf.feature_column.input_layer({"x": x}, [embedded]), "result")
        tf.group(tf.global_variables_initializer(), name="init_all")
        tf.group(tf.tables_initializer(), name="init_tables")
        return graph.as_graph_def(add_shapes=True)


@pytest.mark.parametrize("name", sorted(COLUMNS))
def test_columns_look_up_the_same(name: str, tmp_path: Any) -> None:
    load_library()
    values = NUMBERS if "numbers" in name else TEXTS
    stock = column_graph(COLUMNS[name](tmp_path), values, [None, 3])
    planned, rewritten = fused(stock, "result")
    assert planned.report.changes == ("ids of 1 lookup computed of dense values",)
    view = GraphView(rewritten)
    ops = {view.op(one) for one in view.ancestors(["result"])}
    assert "SelectV2" in ops and not ops & {"Where", "GatherNd", "SparseFillEmptyRows"}
    assert any(op.endswith("GroupEmbeddingLookup") for op in ops)
    for expected, found in zip(predicted(stock, values), predicted(rewritten, values)):
        np.testing.assert_array_equal(expected, found)


def test_a_vector_of_strings_has_one_of_each_row() -> None:
    load_library()
    stock = column_graph(COLUMNS["hashed"](None), TEXTS, [None])
    _, rewritten = fused(stock, "result")
    for values in (TEXTS[:, 0], TEXTS[:, 1]):
        for expected, found in zip(predicted(stock, values), predicted(rewritten, values)):
            np.testing.assert_array_equal(expected, found)


def test_what_else_reads_the_sparse_ids_still_does() -> None:
    load_library()
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.string, [None, 3], name="x")
        places = tf.where(tf.not_equal(x, ""))
        values = tf.strings.to_hash_bucket_fast(tf.gather_nd(x, places), BUCKETS)
        ids = tf.SparseTensor(places, values, tf.shape(x, out_type=tf.int64))
        rows = tf.random_normal_initializer(seed=1)
        table, other = (tf.get_variable(one, [BUCKETS, WIDTH], initializer=rows) for one in "ab")
        pooled = tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="sum")
        pooled += tf.nn.safe_embedding_lookup_sparse(other, ids, combiner="sum")
        dense = tf.sparse.to_dense(ids, -1)
        tf.identity(pooled[:, 0] + tf.cast(tf.reduce_sum(dense, 1), tf.float32), "result")
        tf.group(tf.global_variables_initializer(), name="init_all")
        tf.group(tf.tables_initializer(), name="init_tables")
        stock = graph.as_graph_def(add_shapes=True)
    planned, rewritten = fused(stock, "result")
    assert planned.report.changes == ("ids of 2 lookups computed of dense values",)
    for expected, found in zip(predicted(stock, TEXTS), predicted(rewritten, TEXTS)):
        np.testing.assert_array_equal(expected, found)


def test_graphs_that_train_are_left_alone() -> None:
    stock = column_graph(COLUMNS["hashed"](None), TEXTS, [None, 3])
    assert plan(stock, session_options(config())).report.changes == ()
