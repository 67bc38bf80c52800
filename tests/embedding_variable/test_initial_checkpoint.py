"""`tf.train.init_from_checkpoint`, and columns that name a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    with graph_opt.install():
        yield


def rows_of(table: Any) -> tf.Tensor:
    return tf.nn.embedding_lookup(table, tf.constant([1, 2, 1003], tf.int64))


def saved_in(folder: Path) -> Any:
    with tf.Graph().as_default():
        table = tf.get_embedding_variable("users", 2, partitioner=tf.fixed_size_partitioner(2))
        rows = rows_of(table)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = session.run(rows)
            tf.train.Saver().save(session, str(folder / "model"))
    return values


Start = Callable[[str, Any], None]


@pytest.mark.parametrize(
    "start",
    [
        lambda path, table: tf.train.init_from_checkpoint(path, {"users": table}),
        lambda path, table: tf.train.init_from_checkpoint(path, {"users": list(table)}),
        lambda path, table: tf.train.init_from_checkpoint(path, {"users": "new/users"}),
        lambda path, table: tf.train.init_from_checkpoint(path, {"/": "new/"}),
    ],
)
def test_rows_start_as_those_of_a_checkpoint(start: Start, tmp_path: Path) -> None:
    expected = saved_in(tmp_path)
    with tf.variable_scope("new"):
        table = tf.get_embedding_variable("users", 2, partitioner=tf.fixed_size_partitioner(3))
    rows = rows_of(table)
    train = tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows))
    start(str(tmp_path), table)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(rows), expected)
        session.run(train)


def test_columns_start_as_a_table_of_a_checkpoint(tmp_path: Path) -> None:
    expected = saved_in(tmp_path)
    column = tf.feature_column.embedding_column(
        tf.feature_column.categorical_column_with_embedding("user", tf.int64),
        2,
        ckpt_to_load_from=str(tmp_path),
        tensor_name_in_ckpt="users",
    )
    layer = tf.feature_column.input_layer({"user": tf.constant([[1], [2], [1003]])}, [column])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(layer), expected)


def test_a_checkpoint_without_the_table_is_an_error(tmp_path: Path) -> None:
    saved_in(tmp_path)
    table = tf.get_embedding_variable("other", 2)
    with pytest.raises(ValueError, match="has no table 'items' to start 'other' as"):
        tf.train.init_from_checkpoint(str(tmp_path), {"items": table})
