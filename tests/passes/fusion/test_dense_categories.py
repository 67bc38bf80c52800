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
    assert ("GroupHashBuckets" if name == "hashed" else "SelectV2") in ops
    assert not ops & {"Where", "GatherNd", "SparseFillEmptyRows"}
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


def hashed_graph(shapes: Dict[str, List[Any]], depends: bool = False) -> Any:
    """A column of hashed strings for each input; `depends`: the last reads rows of the others."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        features = {name: tf.placeholder(tf.string, shapes[name], name) for name in shapes}
        rows: List[Any] = []
        for number, name in enumerate(features):
            if depends and number == len(features) - 1:
                looked_up = tf.strings.as_string(tf.concat(rows, 1))
                features[name] = tf.strings.join([features[name], looked_up[:, :1]])
            hashed = column.categorical_column_with_hash_bucket(name, BUCKETS + number)
            embedded = column.embedding_column(hashed, WIDTH)
            with tf.variable_scope(name):
                rows.append(column.input_layer(features, [embedded]))
            tf.identity(rows[-1], "row_" + name)
        tf.concat(rows, 1, name="result")
        tf.group(tf.global_variables_initializer(), name="init_all")
        return graph.as_graph_def(add_shapes=True)


def require_equal_predictions(stock: Any, rewritten: Any, feeds: Dict[str, Any]) -> None:
    found = []
    for graph_def in (stock, rewritten):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.import_graph_def(graph_def, name="")
            session.run("init_all")
            found.append(
                [
                    session.run("result:0", {k + ":0": v[:rows] for k, v in feeds.items()})
                    for rows in (4, 1, 0)
                ]
            )
    for expected, predictions in zip(*found):
        np.testing.assert_array_equal(predictions, expected)


def hashing_ops(graph_def: Any, fetch: str = "result") -> List[int]:
    """How many tensors each op hashes that a request runs."""
    view = GraphView(graph_def)
    run = view.ancestors([fetch])
    assert "StringToHashBucketFast" not in {view.op(name) for name in run}
    return [len(view.inputs(name)) for name in view.of_op("GroupHashBuckets") if name in run]


def test_strings_of_all_columns_are_hashed_by_one_op() -> None:
    load_library()
    stock = hashed_graph({"a": [None], "b": [None, 3], "c": [None, 1]})
    planned, rewritten = fused(stock, "result")
    assert planned.report.changes == ("ids of 3 lookups computed of dense values",)
    assert hashing_ops(rewritten) == [3]
    ops = {node.op for node in rewritten.node}
    assert "SelectV2" not in ops
    long = np.array([[b"x" * 300], [b""], [b"\xff\x00"], [b"b"]], object)
    require_equal_predictions(stock, rewritten, {"a": TEXTS[:, 0], "b": TEXTS, "c": long})


def test_requests_need_no_strings_of_others() -> None:
    load_library()
    stock = hashed_graph({"a": [None], "b": [None], "c": [None]})
    served = frozenset(["row_a"]), frozenset(["row_b", "row_c"])
    options = dataclasses.replace(session_options(config()), served=served)
    rewritten = apply_to_graph_def(stock, *plan(stock, options).rewrites)
    assert hashing_ops(rewritten, "row_a") == [1] and hashing_ops(rewritten, "row_b") == [2]


def test_strings_that_depend_on_lookups_are_hashed_after_them() -> None:
    load_library()
    stock = hashed_graph({"a": [None, 1], "b": [None, 1], "c": [None, 1]}, depends=True)
    _, rewritten = fused(stock, "result")
    assert sum(node.op == "GroupHashBuckets" for node in rewritten.node) == 1
    feeds = {name: TEXTS[:, place : place + 1] for place, name in enumerate("abc")}
    require_equal_predictions(stock, rewritten, feeds)


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
