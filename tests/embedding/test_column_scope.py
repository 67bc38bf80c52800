"""Embedding columns that are looked up together, in models built with TensorFlow's functions."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.embedding.column_scope import (
    coalesced_embedding_scope,
    embedding_column,
    group_embedding_column_scope,
)
from tests.embedding.lookup_groups import IdBags, in_session
from tests.repository_checks import attributes_of_loaded_modules, changes_between

NAMES = ["c{}".format(i) for i in range(5)]
BAGS = {name: IdBags([[i, 3], [], [2 * i]], []) for i, name in enumerate(NAMES)}


def features() -> Dict[str, Any]:
    return {name: bags.sparse() for name, bags in BAGS.items()}


def embedding_columns(first: int = 0, last: int = len(NAMES), **options: Any) -> List[Any]:
    return [
        embedding_column(
            tf.feature_column.categorical_column_with_identity(name, 10),
            3 + i,
            initializer=tf.random_normal_initializer(seed=i),
            **options,
        )
        for i, name in list(enumerate(NAMES))[first:last]
    ]


def input_layer(columns: List[Any]) -> tf.Tensor:
    return tf.feature_column.input_layer(features(), columns)


def linear_model(columns: List[Any]) -> tf.Tensor:
    return tf.feature_column.linear_model(features(), columns)


def dense_features(columns: List[Any]) -> tf.Tensor:
    return tf.keras.layers.DenseFeatures(columns)(features())


def lookups_run(result: tf.Tensor) -> List[tf.Operation]:
    """Group lookups that the tensor depends on."""
    seen: Dict[str, tf.Operation] = {}
    ahead = [result.op]
    while ahead:
        op = ahead.pop()
        if op.name not in seen:
            seen[op.name] = op
            ahead.extend(tensor.op for tensor in op.inputs)
    return [op for op in seen.values() if "GroupEmbeddingLookup" in op.type]


def built(build: Callable[[List[Any]], tf.Tensor], grouped: bool) -> Any:
    """The result's value, gradients and variable names, and the lookups it runs."""
    with tf.Graph().as_default():
        with contextlib.ExitStack() as scopes:
            if grouped:
                scopes.enter_context(group_embedding_column_scope("all"))
            columns = embedding_columns()
        result = build(columns)
        variables = tf.global_variables()
        gradients = tf.gradients(tf.reduce_sum(tf.sin(result)), variables)
        dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
        values = in_session([result, dense])
        return values, [v.name for v in variables], lookups_run(result)


@pytest.mark.parametrize("build", [input_layer, dense_features])
def test_grouped_columns_equal_stock_ones(build: Callable[[List[Any]], tf.Tensor]) -> None:
    (result, gradients), names, lookups = built(build, grouped=True)
    (expected, expected_gradients), expected_names, none = built(build, grouped=False)
    assert [len(op.outputs) for op in lookups] == [len(NAMES)] and none == []
    assert names == expected_names
    np.testing.assert_array_equal(result, expected)
    for one, other in zip(gradients, expected_gradients):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def partitioned_input_layer(columns: List[Any]) -> tf.Tensor:
    with tf.variable_scope("model", partitioner=tf.fixed_size_partitioner(3)):
        return input_layer(columns)


def test_partitioned_columns_are_spread_as_in_stock() -> None:
    (result, _), names, lookups = built(partitioned_input_layer, grouped=True)
    (expected, _), expected_names, _ = built(partitioned_input_layer, grouped=False)
    assert len(lookups) == 1 and names == expected_names and len(names) == 3 * len(NAMES)
    np.testing.assert_array_equal(result, expected)


def test_coalesced_columns_are_stock_ones_in_parts() -> None:
    with tf.Graph().as_default():
        with coalesced_embedding_scope("all", num_partitions=3) as scope:
            columns = embedding_columns(last=4)
        columns += embedding_columns(first=4, coalesced_scope=scope)
        result = input_layer(columns)
        names = [variable.name for variable in tf.global_variables()]
        (got,) = in_session([result])
        assert scope.name == "all" and len(lookups_run(result)) == 1
    (expected, _), expected_names, _ = built(stock_in_parts, grouped=False)
    assert names == expected_names
    np.testing.assert_array_equal(got, expected)


def stock_in_parts(columns: List[Any]) -> tf.Tensor:
    with tf.variable_scope("", partitioner=tf.fixed_size_partitioner(3)):
        return input_layer(columns)


def test_a_layer_of_coalesced_columns_has_their_parts() -> None:
    with coalesced_embedding_scope(num_partitions=2):
        columns = embedding_columns()
    layer = tf.keras.layers.DenseFeatures(columns)
    assert len(lookups_run(layer(features()))) == 1
    assert len(layer.trainable_weights) == 2 * len(NAMES)


def test_coalesced_scopes_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="num_partitions is 0; need 1 or more"):
        with coalesced_embedding_scope(num_partitions=0):
            pass
    with pytest.raises(ValueError, match="coalesced_scope is 'a'; need what"):
        embedding_columns(coalesced_scope="a")


def test_grouped_columns_in_a_linear_model() -> None:
    (result, _), names, lookups = built(linear_model, grouped=True)
    (expected, _), expected_names, _ = built(linear_model, grouped=False)
    assert len(lookups) == 1 and names == expected_names
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_columns_that_are_not_all_used_are_joined_as_far_as_they_go() -> None:
    with group_embedding_column_scope():
        columns = embedding_columns()
    lookups = lookups_run(input_layer(columns[:3]))
    assert sorted(len(op.outputs) for op in lookups) == [1, 2]


def test_two_inputs_are_looked_up_separately() -> None:
    with group_embedding_column_scope():
        columns = embedding_columns()
    with tf.variable_scope("model") as scope:
        first = input_layer(columns)
    with tf.variable_scope(scope, reuse=True):
        second = input_layer(columns)
    assert len(lookups_run(first)) == len(lookups_run(second)) == 1
    assert lookups_run(first) != lookups_run(second)


def test_columns_that_clip_rows_are_unchanged() -> None:
    with group_embedding_column_scope():
        columns = embedding_columns(max_norm=0.1)
    assert lookups_run(input_layer(columns)) == []


def test_columns_made_outside_are_unchanged() -> None:
    with group_embedding_column_scope():
        inside = embedding_columns()[0]
    outside = embedding_columns()
    assert lookups_run(input_layer(outside)) == []
    assert type(outside[0]) is not type(inside)
    assert type(inside).__name__ == "EmbeddingColumn"


def test_other_threads_make_stock_columns_meanwhile() -> None:
    with ThreadPoolExecutor(1) as other, group_embedding_column_scope():
        (column, *_) = other.submit(embedding_columns).result()
        assert type(column) is not type(embedding_columns()[0])
    assert type(column) is type(embedding_columns()[0])


def test_the_scope_leaves_tensorflow_as_it_was() -> None:
    before = attributes_of_loaded_modules("tensorflow")
    with group_embedding_column_scope(), group_embedding_column_scope("inner"):
        assert changes_between(before, attributes_of_loaded_modules("tensorflow")) != []
    assert changes_between(before, attributes_of_loaded_modules("tensorflow")) == []


def test_the_scope_ends_with_an_error_in_it() -> None:
    with pytest.raises(ValueError, match="Invalid dimension"), group_embedding_column_scope():
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_identity("c", 10), 0
        )
    assert lookups_run(input_layer(embedding_columns())) == []


def test_weighted_columns() -> None:
    def layer() -> tf.Tensor:
        ids = tf.feature_column.categorical_column_with_identity("ids", 10)
        weighted = tf.feature_column.weighted_categorical_column(ids, "weights")
        initializer = tf.random_normal_initializer(seed=1)
        column = tf.feature_column.embedding_column(weighted, 4, initializer=initializer)
        bags = IdBags([[1, 2], [3]], [[0.5, 2.0], [1.0]])
        inputs = {"ids": bags.sparse(), "weights": bags.sparse_weights()}
        return tf.feature_column.input_layer(inputs, [column])

    with group_embedding_column_scope():
        grouped = layer()
    assert len(lookups_run(grouped)) == 1
    got = in_session(grouped)
    with tf.Graph().as_default():
        tf.set_random_seed(20201)
        expected = in_session(layer())
    np.testing.assert_allclose(got, expected, rtol=1e-6)
