"""Lookups of repeated ids, with all that is between ids and rows, are done once."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes.repeated_rows.once import (
    ROWS,
    WIDTH,
    computed_once,
    fed,
    inputs,
    predicted,
    require_equal,
)


def of_dense_ids(user: Any, item: Any) -> Any:
    """As feature columns look up dense ids."""
    column = tf.feature_column.categorical_column_with_identity("ids", 20, default_value=0)
    rows = tf.feature_column.input_layer(
        {"ids": tf.cast(user * 20, tf.int64) - 1},
        [tf.feature_column.embedding_column(column, 3)],
    )
    return tf.concat([rows, item], 1)


def of_a_history(user: Any, item: Any) -> Any:
    """Attention of an item to what a user has seen."""
    table = tf.get_variable("table", [20, 8])
    history = tf.nn.embedding_lookup(table, tf.cast(user * 20, tf.int32))
    query = tf.layers.dense(item, 8)
    pairs = tf.concat([history, history * query[:, None, :]], 2)
    weights = tf.nn.softmax(tf.layers.dense(pairs, 1)[:, :, 0])
    return tf.reduce_sum(history * weights[:, :, None], 1)


def of_a_partitioned_table(user: Any, item: Any) -> Any:
    """Rows of a table in three parts."""
    table = tf.get_variable("table", [20, 3], partitioner=tf.fixed_size_partitioner(3))
    rows = tf.nn.embedding_lookup(table, tf.cast(user[:, 0] * 20, tf.int64))
    return tf.concat([rows, item], 1)


def of_resources(user: Any, item: Any) -> Any:
    """Rows of a resource variable, and layers with a shape of their own."""
    table = tf.get_variable("table", [20, 3], use_resource=True)
    rows = tf.nn.embedding_lookup(table, tf.cast(user * 20, tf.int64))
    flat = tf.reshape(rows, [tf.shape(user)[0], WIDTH * 3])
    return tf.concat([tf.layers.dense(flat, 5, tf.nn.relu), item], 1)


@pytest.mark.parametrize(
    "build", [of_dense_ids, of_a_history, of_a_partitioned_table, of_resources]
)
def test_lookups_are_done_once(build: Callable[[Any, Any], Any]) -> None:
    user, item = inputs()
    result = build(user, item)
    once = computed_once({"user": user}, [item], result)
    view = once.view
    gathers = view.of_op("ResourceGather", "SparseSegmentMean", "Where", "Unique")
    gathers += [name for name in view.of_op("GatherV2") if "Tensordot" not in name]
    assert gathers and all(name.startswith("repeated_rows/") for name in gathers)
    for rows in (1, ROWS):
        require_equal(once, fed(user, item, rows), close=True)


def test_words_are_looked_up_once() -> None:
    """Through a hash, a vocabulary and a table of strings."""
    column = tf.feature_column
    words = tf.placeholder(tf.string, [None, 3], "user")
    item = tf.placeholder(tf.float32, [None, 2], "item")
    hashed = column.categorical_column_with_hash_bucket("hashed", 20)
    listed = column.categorical_column_with_vocabulary_list("listed", ["a", "b"], num_oov_buckets=2)
    columns = [column.embedding_column(hashed, 3), column.embedding_column(listed, 2, "sum")]
    rows = column.input_layer({"hashed": words, "listed": words}, columns)
    once = computed_once({"user": words}, [item], tf.concat([rows, item], 1))
    lists = once.view.of_op("Where", "StringToHashBucketFast", "LookupTableFindV2")
    assert lists and all(name.startswith("repeated_rows/") for name in lists)
    feeds = {words: np.array([["a", "c", ""]] * 3, object), item: np.ones([3, 2])}
    with tf.Session() as session:
        session.run([tf.global_variables_initializer()])
        variables = tf.global_variables()
        initializers = tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS)
        expected, found = predicted(once, variables, feeds, initializers)
    np.testing.assert_array_equal(found, expected)


def test_ids_that_another_op_reads_are_those_of_the_request() -> None:
    user = tf.placeholder(tf.int64, [None, 3], "user")
    item = tf.placeholder(tf.float32, [None, 3], "item")
    places = tf.where(tf.greater(user, 0))
    listed = tf.gather_nd(user, places)
    once = computed_once(
        {"user": user}, [item], [tf.unique(listed)[1], tf.cast(user * 2, tf.float32) + item]
    )
    rows = np.array([[0, 5, 4]] * 3)
    require_equal(once, {user: rows, item: np.ones([3, 3], np.float32)})
