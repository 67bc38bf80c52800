"""Requests whose rows differ where they must not, and inputs without rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes.repeated_rows.once import (
    computed_once,
    fed,
    inputs,
    predicted,
    rewritten_run,
)


def test_rows_that_differ_are_an_error_that_names_the_feature() -> None:
    user, item = inputs()
    once = computed_once({"user": user}, [item], tf.concat([tf.exp(user), item], 1))
    feeds = fed(user, item)
    feeds[user][3, 1] += 1
    with tf.Session(), pytest.raises(tf.errors.InvalidArgumentError, match="differ in user, but"):
        predicted(once, [], feeds)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.bool])
def test_rows_are_compared_whatever_their_type(dtype: Any) -> None:
    user = tf.placeholder(dtype, [None, 2], "user")
    item = tf.placeholder(tf.float32, [None, 2], "item")
    once = computed_once({"user": user}, [item], tf.cast(user, tf.float32) + item)
    values = np.array([[0, 1]] * 3).astype(dtype.as_numpy_dtype)
    rows = np.ones([3, 2], np.float32)
    with tf.Session():
        expected, found = predicted(once, [], {user: values, item: rows})
        np.testing.assert_array_equal(expected, found)
        values[2] = [1, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match="user"):
            predicted(once, [], {user: values, item: rows})


def test_nan_is_equal_to_itself_and_zeros_have_signs() -> None:
    user, item = inputs(1)
    once = computed_once({"user": user}, [item], tf.reciprocal(user) + item)
    rows = np.ones([2, 1], np.float32)
    with tf.Session():
        expected, found = predicted(once, [], {user: [[np.nan], [np.nan]], item: rows})
        np.testing.assert_array_equal(expected, found)
        with pytest.raises(tf.errors.InvalidArgumentError, match="user"):
            predicted(once, [], {user: [[0.0], [-0.0]], item: rows})


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
def test_inputs_must_have_as_many_rows(dtype: Any) -> None:
    user = tf.placeholder(tf.float32, [None, 2], "user")
    history = tf.placeholder(dtype, [None, 2], "history")
    item = tf.placeholder(tf.float32, [None, 2], "item")
    result = tf.concat([tf.exp(user), tf.exp(tf.cast(history, tf.float32)), item], 1)
    once = computed_once({"user": user, "history": history}, [item], result)
    feeds = {user: np.ones([3, 2]), history: np.ones([3, 2]), item: np.ones([3, 2])}
    assert np.shape(rewritten_run(once, feeds)[0]) == (3, 6)
    for name, other in (("history", history), ("item", item)):
        message = "has 3 rows of user and 2 of " + name
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            rewritten_run(once, {**feeds, other: np.ones([2, 2])})


def test_strings_are_compared() -> None:
    user = tf.placeholder(tf.string, [None, 2], "user")
    item = tf.placeholder(tf.string, [None, 2], "item")
    joined = tf.strings.join([tf.strings.lower(user), item])
    once = computed_once({"user": user}, [item], tf.strings.to_hash_bucket_fast(joined, 1000))
    rows = np.array([[b"A", b"longer than what fits into the string itself"]] * 3, object)
    with tf.Session():
        expected, found = predicted(once, [], {user: rows, item: rows[:, ::-1]})
        np.testing.assert_array_equal(expected, found)
        rows[2, 1] = rows[2, 1][:-1] + b"g"
        with pytest.raises(tf.errors.InvalidArgumentError, match="differ in user"):
            predicted(once, [], {user: rows, item: rows})


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_all_features_that_differ_are_named(rank: int) -> None:
    shapes = [[None, 2, 3][:rank]] * 3
    names = ["a", "b", "c"]
    tensors = [tf.placeholder(tf.int64, shape, name) for shape, name in zip(shapes, names)]
    sums = [tf.reduce_sum(tensor + 1, list(range(1, rank))) for tensor in tensors]
    once = computed_once(dict(zip(names, tensors)), [], sums)
    feeds = {tensor: np.full([4, *tensor.shape[1:].as_list()], 7) for tensor in tensors}
    expected = [4 * [float(np.prod(tensor.shape[1:].as_list()) * 8)] for tensor in tensors]
    np.testing.assert_array_equal(rewritten_run(once, feeds), expected)
    for tensor in (tensors[0], tensors[2]):
        feeds[tensor].reshape(4, -1)[1, -1] = 6
    with pytest.raises(tf.errors.InvalidArgumentError, match="differ in a, c, but"):
        rewritten_run(once, feeds)


@pytest.mark.parametrize("shape, saw", [([8, 2], "8 rows"), (None, "unknown rank"), ([], "single")])
def test_inputs_without_an_open_number_of_rows_are_refused(shape: Any, saw: str) -> None:
    user = tf.placeholder(tf.float32, shape, "user")
    once = computed_once({"user": user}, [], tf.exp(user))
    assert saw in once.refused()["user"] and not once.planned.rewrites


def test_features_may_have_any_names() -> None:
    tensors = [tf.placeholder(tf.float32, [None, 2], "user_{}".format(i)) for i in range(2)]
    features = {"user id": tensors[0], "user:id": tensors[1]}
    once = computed_once(features, [], tf.exp(tensors[0]) + tf.exp(tensors[1]))
    rows = np.ones([3, 2], np.float32)
    with tf.Session(), pytest.raises(
        tf.errors.InvalidArgumentError, match="differ in user:id, but"
    ):
        predicted(once, [], {tensors[0]: rows, tensors[1]: np.arange(6).reshape(3, 2)})
