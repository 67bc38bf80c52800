"""What repeated inputs reach is computed for one row, and predictions are the same."""

from __future__ import annotations

from typing import Any, Callable, List, Tuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from tests.example_share import example_share
from tests.passes.repeated_rows.once import (
    ROWS,
    WIDTH,
    computed_once,
    fed,
    inputs,
    predicted,
    require_equal,
)


def test_a_layer_of_the_user_is_computed_once() -> None:
    user, item = inputs()
    weights = tf.Variable(np.random.RandomState(1).rand(WIDTH, 3).astype(np.float32))
    layer = tf.nn.relu(tf.matmul(user, weights), name="layer")
    result = tf.concat([layer, item], 1, name="result")
    once = computed_once({"user": user}, [item], result)
    assert not once.refused()
    view = once.view
    assert "layer" not in view and view.op(view.inputs("result")[0].node) == "Tile"
    assert view.inputs("result")[1].node == "item"
    assert once.planned.report.changes == (
        "2 nodes computed once for user, 1 tensor repeated for all rows",
    )
    for rows in (1, 2, ROWS, 0):
        require_equal(once, fed(user, item, rows), close=True)


def test_what_mixes_rows_is_computed_for_all_of_them_and_told() -> None:
    user, item = inputs()
    squares = tf.square(user, name="squares")
    mean = tf.reduce_mean(squares, 0, name="mean")
    result = tf.add(item, mean, name="result")
    once = computed_once({"user": user}, [item], result)
    assert once.refused() == {"mean": "Mean over the rows of the batch"}
    view = once.view
    assert view.op(view.inputs("mean")[0].node) == "Tile"
    require_equal(once, fed(user, item), close=True)


def test_a_number_of_rows_as_a_value_is_that_of_the_request() -> None:
    user, item = inputs()
    rows = tf.cast(tf.shape(tf.exp(user))[0], tf.float32)
    once = computed_once({"user": user}, [item], [tf.exp(user) / rows + item, item * rows])
    require_equal(once, fed(user, item), close=True)


def test_shapes_of_what_is_computed_once_are_those_of_the_request() -> None:
    user, item = inputs()
    layer = tf.exp(user, name="layer")
    shape = tf.shape(layer)
    result = tf.reshape(item, tf.stack([shape[0] * 2, shape[1] // 2]))
    once = computed_once({"user": user}, [item], result)
    assert "layer" not in once.view
    require_equal(once, fed(user, item))


def test_results_that_are_fetched_have_all_rows() -> None:
    user, item = inputs()
    layer = tf.exp(user)
    once = computed_once({"user": user}, [item], [layer, layer + item])
    require_equal(once, fed(user, item), close=True)


def test_nothing_changes_where_nothing_is_computed_once() -> None:
    user, item = inputs()
    once = computed_once({"user": user}, [item], tf.add(user, item))
    assert not once.planned.rewrites and not once.planned.report.changes


# Random graphs: each step makes a tensor [rows, WIDTH] of earlier ones.
_UNARY: List[Callable[[Any], Any]] = [
    tf.nn.relu,
    tf.tanh,
    lambda x: tf.nn.softmax(x),
    lambda x: tf.reshape(tf.reshape(x, [-1, 2, 2]), [-1, WIDTH]),
    lambda x: tf.reshape(x, tf.shape(x)),
    lambda x: tf.transpose(tf.transpose(x)),
    lambda x: tf.matmul(x, tf.constant(np.eye(WIDTH)[::-1] + 0.5, tf.float32)),
    lambda x: x - tf.reduce_mean(x, 1, keepdims=True),
    lambda x: x - tf.reduce_mean(x, 0),
    lambda x: tf.tile(x[:, :2], [1, 2]),
    lambda x: x[:, ::-1],
    lambda x: x[::-1],
    lambda x: tf.reduce_sum(tf.expand_dims(x, 2) * tf.expand_dims(x, 1), 2),
    lambda x: tf.nn.bias_add(x, tf.constant([1.0, 2.0, 3.0, 4.0])),
    lambda x: tf.gather(tf.constant(np.arange(40.0).reshape(10, 4), tf.float32),
                        tf.cast(tf.abs(x[:, 0]), tf.int32) % 10),
    lambda x: tf.fill(tf.shape(x), 0.5) + x,
    lambda x: x * tf.cast(tf.shape(x)[0], tf.float32),
    lambda x: tf.matmul(x, x, transpose_b=True)[:, :1] + x,
    lambda x: tf.cumsum(x, 1),
    lambda x: tf.cumsum(x, 0),
    lambda x: tf.where(x > 0.5, x, tf.zeros_like(x)),
    lambda x: tf.stack(tf.unstack(x, WIDTH, 1)[::-1], 1),
]  # fmt: skip
_BINARY: List[Callable[[Any, Any], Any]] = [
    tf.add,
    tf.multiply,
    tf.maximum,
    lambda x, y: tf.concat([x[:, :1], y[:, 1:]], 1),
    lambda x, y: tf.concat([y, x], 1)[:, 2:6],
    lambda x, y: tf.squeeze(tf.matmul(x[:, None, :], y[:, :, None]), [2]) + x,
    lambda x, y: tf.reshape(y, tf.shape(x)) - x,
    lambda x, y: x + tf.tile(y[:1], [tf.shape(x)[0], 1]),
]
_WEIGHTS = np.random.RandomState(11).randn(16, WIDTH).astype(np.float32)


def _layer(parts: List[Any], activation: Callable[[Any], Any] = tf.nn.relu) -> Any:
    joined = tf.concat(parts, 1)
    weights = tf.constant(_WEIGHTS[: joined.shape[1]])
    return activation(tf.nn.bias_add(tf.matmul(joined, weights), tf.constant(_WEIGHTS[3])))


def _attention(x: Any, y: Any) -> Any:
    """Two places of two columns each, compared with two columns."""
    places = tf.reshape(x, [-1, 2, 2])
    query = tf.tile(y[:, None, 1:3], [1, 2, 1])
    pairs = tf.concat([places, query, query - places, places * query], 2)
    kernel = tf.constant(_WEIGHTS[:8])
    hidden = tf.sigmoid(tf.reshape(tf.matmul(tf.reshape(pairs, [-1, 8]), kernel), [-1, 2, WIDTH]))
    weights = tf.nn.softmax(tf.reduce_sum(hidden, 2))
    pooled = tf.reduce_sum(places * weights[:, :, None], 1)
    same = tf.matmul(weights[:, None, :], places)[:, 0, :]
    return tf.concat([pooled, same], 1)


_BINARY += [
    lambda x, y: _layer([x, y]),
    lambda x, y: _layer([y[:, :1], x, x, y[:, 1:2]], tf.tanh),
    lambda x, y: _layer([x, y, x - y, x * y], tf.sigmoid),
    lambda x, y: _layer([y, y - x, y + x, y], tf.identity),
    _attention,
]
_STEPS = st.lists(
    st.tuples(
        st.integers(0, len(_UNARY) + len(_BINARY) - 1), st.integers(0, 99), st.integers(0, 99)
    ),
    min_size=1,
    max_size=12,
)


def random_graph(steps: List[Tuple[int, int, int]], user: Any, other: Any, item: Any) -> List[Any]:
    """What the steps make of the inputs."""
    made = [user, other, item]
    for op, first, second in steps:
        x, y = made[first % len(made)], made[second % len(made)]
        made.append(_UNARY[op](x) if op < len(_UNARY) else _BINARY[op - len(_UNARY)](x, y))
    return made[3:]


@pytest.mark.fuzz("repeated")
@example_share(0.3)
@given(steps=_STEPS, rows=st.integers(1, 5), seed=st.integers(0, 99))
def test_random_graphs_predict_the_same(
    steps: List[Tuple[int, int, int]], rows: int, seed: int
) -> None:
    random = np.random.RandomState(seed)
    with tf.Graph().as_default(), tf.Session():
        user, other, item = (
            tf.placeholder(tf.float32, [None, WIDTH], name) for name in ("user", "other", "item")
        )
        made = random_graph(steps, user, other, item)
        once = computed_once(
            {"user": user, "other": other}, [item], [made[-1], made[seed % len(made)]]
        )
        same = {each: np.repeat(random.randn(1, WIDTH), rows, 0) for each in (user, other)}
        feeds = {**same, item: random.randn(rows, WIDTH)}
        expected, found = predicted(once, [], feeds)
    for one, another in zip(expected, found):
        assert one.shape == another.shape
        np.testing.assert_allclose(another, one, rtol=1e-4, atol=1e-4)
