"""Which ops compute each row from the same row, beside those that micro-batches know."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes.repeated_rows.once import computed_once, predicted

VALUES = np.array([[3.0, -1.0]] * 4, np.float32)
WORDS = np.array([["A b", "c"]] * 4, object)


def bucketized(values: Any) -> Any:
    return tf.raw_ops.Bucketize(input=values, boundaries=[0.0, 2.0])


def the_first(values: Any) -> Any:
    return values[:1] + tf.zeros([2])


def rows_of_a_variable(values: Any) -> Any:
    table = tf.get_variable("table", [5, 3], use_resource=True)
    return tf.gather(table, tf.cast(tf.abs(values), tf.int32))


@pytest.mark.parametrize("build", [bucketized, the_first, rows_of_a_variable])
def test_rows_are_computed_once(build: Callable[[Any], Any]) -> None:
    user = tf.placeholder(tf.float32, [None, 2], "user")
    item = tf.placeholder(tf.float32, [None, 2], "item")
    made = tf.cast(build(user), tf.float32)
    result = tf.reduce_sum(made) * 0 + tf.reduce_sum(item) + made
    once = computed_once({"user": user}, [item], result)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feeds = {user: VALUES, item: VALUES}
        expected, found = predicted(once, tf.global_variables(), feeds)
    np.testing.assert_array_equal(found, expected)
    assert any(name.startswith("repeated_rows/first_row/") for name in once.view.nodes)


@pytest.mark.parametrize("op", [tf.strings.lower, tf.strings.upper, tf.strings.strip])
def test_words_are_changed_once(op: Any) -> None:
    user = tf.placeholder(tf.string, [None, 2], "user")
    item = tf.placeholder(tf.string, [None, 2], "item")
    once = computed_once({"user": user}, [item], tf.strings.join([op(user), item]))
    with tf.Session():
        expected, found = predicted(once, [], {user: WORDS, item: WORDS})
    np.testing.assert_array_equal(found, expected)
    assert not once.refused()


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x[1:2],
        lambda x: x[-1:],
        lambda x: x[:2],
        lambda x: x[::2],
        lambda x: tf.unique(x[:, 0])[0],
        lambda x: tf.reduce_max(x, 0),
        lambda x: tf.gather(x, [0]),
        lambda x: tf.random.shuffle(x),
    ],
)
def test_what_takes_some_rows_is_refused(build: Callable[[Any], Any]) -> None:
    user = tf.placeholder(tf.float32, [None, 2], "user")
    item = tf.placeholder(tf.float32, [None, 2], "item")
    made = build(tf.tanh(user))
    once = computed_once({"user": user}, [item], tf.reduce_sum(made) + item)
    assert once.refused()
    with tf.Session():
        expected, found = predicted(once, [], {user: VALUES, item: VALUES})
    np.testing.assert_allclose(found, expected, 1e-6)
