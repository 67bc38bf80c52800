"""`tf.get_embedding_variable`: names, scopes, reuse, and rows as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding_variable import lookups
from graph_opt.reporting.warnings_given import forget_warnings, warnings_given
from tests.control_flow import control_flow_v2
from tests.release_features import keras_optimizers


def bank_of(rows: int, **options: Any) -> Any:
    """Options whose rows start as 0, 1, 2, ... in all columns."""

    def initializer(shape: Any, dtype: Any = None, partition_info: Any = None) -> tf.Tensor:
        return tf.tile(tf.expand_dims(tf.range(float(shape[0])), 1), [1, shape[1]])

    return graph_opt.EmbeddingVariableOption(
        init_option=graph_opt.InitializerOption(initializer, rows), **options
    )


def test_names_and_scopes_are_those_of_get_variable() -> None:
    with tf.variable_scope("outer"):
        table = graph_opt.get_embedding_variable("table", 4)
    with tf.variable_scope("outer", reuse=True):
        assert graph_opt.get_embedding_variable("table", embedding_dim=4) is table
    assert table.name == "outer/table:0"
    assert table.shape == [4]
    assert tf.get_collection("embedding_variables") == [table]
    with tf.variable_scope("outer"):
        with pytest.raises(ValueError, match="'outer/table' already exists"):
            graph_opt.get_embedding_variable("table", 4)
    with tf.variable_scope("outer", reuse=True):
        with pytest.raises(ValueError, match="'outer/other' does not exist"):
            graph_opt.get_embedding_variable("other", 4)
        with pytest.raises(ValueError, match="has 4 columns, not 5"):
            graph_opt.get_embedding_variable("table", 5)


def test_partitioners_make_parts() -> None:
    partitioner = tf.min_max_variable_partitioner(3, min_slice_size=256 << 10)
    with tf.variable_scope("scope", partitioner=partitioner):
        table = graph_opt.get_embedding_variable("table", 4)
    assert [part.op.name for part in table] == [
        "scope/table/part_{}".format(number) for number in range(3)
    ]
    assert tf.trainable_variables() == list(table)
    with pytest.raises(ValueError, match="the partitioner divides columns"):
        graph_opt.get_embedding_variable(
            "columns", 4, partitioner=tf.fixed_size_partitioner(2, axis=1)
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"key_dtype": tf.float32}, "key_dtype is float32"),
        ({"value_dtype": tf.float16}, "value_dtype is float16"),
        ({"regularizer": tf.nn.l2_loss}, "regularizer is not supported"),
        ({"embedding_dim": 0}, "has 0 columns"),
    ],
)
def test_arguments_that_are_not_supported(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        graph_opt.get_embedding_variable("table", **{"embedding_dim": 4, **arguments})


def test_what_a_scope_asks_for_in_vain_is_said() -> None:
    forget_warnings()
    with tf.variable_scope("scope", regularizer=tf.nn.l2_loss):
        graph_opt.get_embedding_variable("table", 4)
    assert warnings_given() == (
        "EmbeddingVariable 'scope/table': the scope's regularizer has no effect",
    )


@pytest.mark.parametrize("parts", [1, 3])
def test_rows_start_as_rows_of_the_bank(parts: int) -> None:
    partitioner = tf.fixed_size_partitioner(parts) if parts > 1 else None
    table = graph_opt.get_embedding_variable(
        "table", 2, ev_option=bank_of(5), partitioner=partitioner
    )
    keys = np.array([[1, 7, 2**62], [7, 5, 1003]])
    rows = tf.nn.embedding_lookup(table, tf.constant(keys))
    given = tf.nn.embedding_lookup(table, tf.constant([1, 7], tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = np.repeat((keys % 5)[..., np.newaxis], 2, axis=2)
        np.testing.assert_array_equal(session.run(rows), expected)
        np.testing.assert_array_equal(session.run(given), [[1, 1], [2, 2]])
        assert list(session.run(table.total_count())) == [5, 2]
        exported = session.run(table.export())
        assert set(exported.keys) == set(keys.ravel())
        for part, key in enumerate([7, 1, 5]):  # 1 and 7 % 1000 % 3 = 1, 5 % 3 = 2
            if parts > 1:
                assert key % 1000 % parts == [1, 1, 2][part]
        session.run(tf.global_variables_initializer())
        assert list(session.run(table.total_count())) == [0, 2]


def test_a_filter_admits_keys_that_came_often_enough() -> None:
    option = bank_of(5, filter_option=graph_opt.CounterFilter(3))
    option.init.default_value_no_permission = -1.0
    table = graph_opt.get_embedding_variable("table", 1, ev_option=option)
    ids = tf.placeholder(tf.int64, [None])
    matrix = tf.SparseTensor(
        tf.stack([tf.range(tf.size(ids, out_type=tf.int64)), tf.zeros_like(ids)], 1),
        ids,
        tf.stack([tf.size(ids, out_type=tf.int64), 1]),
    )
    rows = tf.nn.embedding_lookup_sparse(table, matrix, None)[:, 0]
    counted = tf.nn.embedding_lookup(table, tf.constant([4], tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert list(session.run(rows, {ids: [2, 3, 2, 3]})) == [-1, -1, -1, -1]
        assert list(session.run(rows, {ids: [2, 4, 2, 4]})) == [2, -1, 2, -1]
        assert list(session.run(rows, {ids: [3, 2]})) == [3, 2]
        assert session.run(counted).tolist() == [[4]]  # its third time
        assert list(session.run(table.total_count())) == [3, 1]
        assert session.run(table.get_frequency([2, 3, 4])).tolist() == [5, 3, 3]


def test_keys_may_be_strings() -> None:
    table = graph_opt.get_embedding_variable("table", 2, tf.string)
    rows = tf.nn.embedding_lookup(table, tf.constant(["a", "b", "a"]))
    bags = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["a", "", ""], [2, 2])
    pooled = lookups.safe_embedding_lookup_sparse(table, bags, combiner="sum")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second, third = session.run(rows)
        assert (first == third).all()
        assert (first != second).any()
        np.testing.assert_array_equal(session.run(pooled), [first, [0, 0]])


def test_a_session_without_initialization_names_the_variable() -> None:
    table = graph_opt.get_embedding_variable("table", 2)
    rows = tf.nn.embedding_lookup(table, tf.constant([1], tf.int64))
    with tf.Session() as session:
        assert list(session.run(tf.report_uninitialized_variables())) == [b"table"]
        with pytest.raises(tf.errors.FailedPreconditionError, match="table"):
            session.run(rows)


def test_a_table_cannot_be_fetched_as_a_whole() -> None:
    table = graph_opt.get_embedding_variable("table", 2)
    with tf.Session() as session:
        with pytest.raises(NotImplementedError, match="'table' cannot be fetched"):
            session.run([table])


@pytest.mark.parametrize("second_version", [False, True])
def test_lookups_in_conditionals_and_functions_are_trained(second_version: bool) -> None:
    with control_flow_v2(second_version):
        table = graph_opt.get_embedding_variable("table", 1, ev_option=bank_of(5))
        ids = tf.placeholder(tf.int64, [None])
        wanted = tf.placeholder(tf.bool, [])
        rows = tf.cond(
            wanted,
            lambda: tf.nn.embedding_lookup(table, ids),
            lambda: tf.zeros([tf.size(ids), 1]),
        )
        called = tf.function(lambda keys: tf.nn.embedding_lookup(table, keys))(ids)
        train = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(rows + called))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(called, {ids: [2, 3]})
        session.run(train, {ids: [3, 3], wanted: True})
        session.run(train, {ids: [2], wanted: False})
        assert session.run(rows, {ids: [2, 3], wanted: True}).tolist() == [[1], [-1]]
        new = np.arange(100, 50100)
        session.run(train, {ids: new, wanted: True})  # once all of them have rows
        np.testing.assert_array_equal(session.run(called, {ids: new})[:, 0], new % 5 - 2)


def test_a_tape_in_a_function_gives_a_gradient_by_key() -> None:
    table = graph_opt.get_embedding_variable("table", 1, ev_option=bank_of(5))

    @tf.function
    def gradient_of(keys: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.nn.embedding_lookup(table, keys))
        return tape.gradient(loss, table)

    slices = gradient_of(tf.constant([3, 2, 3], tf.int64))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(slices).indices.tolist() == [3, 2, 3]
        assert session.run(table.size) == 2


def test_a_table_in_parts_is_trained_as_a_whole() -> None:
    table = graph_opt.get_embedding_variable(
        "table", 1, ev_option=bank_of(5), partitioner=tf.fixed_size_partitioner(2)
    )
    rows = tf.nn.embedding_lookup(table, tf.constant([1, 2], tf.int64))
    optimizer = tf.train.GradientDescentOptimizer(1.0)
    train = optimizer.minimize(tf.reduce_sum(rows * rows), var_list=[table])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run(rows).tolist() == [[-1], [-2]]


@pytest.mark.parametrize("clips", [False, True])
def test_a_table_in_parts_has_one_gradient(clips: bool) -> None:
    table = graph_opt.get_embedding_variable(
        "table", 1, ev_option=bank_of(5), partitioner=tf.fixed_size_partitioner(2)
    )
    other = tf.get_variable("other", [], use_resource=True)
    rows = tf.nn.embedding_lookup(table, tf.constant([1, 2, 4], tf.int64))
    loss = tf.reduce_sum(rows * rows)
    gradients = tf.gradients(loss + other, [other, table])
    with tf.GradientTape() as tape:
        again = tf.nn.embedding_lookup(table, tf.constant([1, 2, 4], tf.int64))
        squares = tf.reduce_sum(again * again)
    (of_tape,) = tape.gradient(squares, [table])
    if clips:
        gradients, _ = tf.clip_by_global_norm(gradients, 1e9)
    optimizers = [tf.train.GradientDescentOptimizer(1.0), keras_optimizers().SGD(1.0)]
    steps = [one.apply_gradients(zip(gradients, [other, table])) for one in optimizers]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(rows)
        for slices in session.run([gradients[1], of_tape]):
            assert dict(zip(slices.indices, slices.values[:, 0])) == {1: 2, 2: 4, 4: 8}
        for step in steps:
            session.run(step)
        assert session.run(rows).tolist() == [[1], [2], [4]]
    with pytest.raises(ValueError, match="gradient of 'table:0' is a tensor"):
        optimizers[0].apply_gradients([(tf.zeros([3, 1]), table)])
