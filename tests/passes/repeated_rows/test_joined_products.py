"""Layers over repeated columns: only the other columns are multiplied for all rows."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.passes.repeated_rows.once import (
    COLUMNS,
    PLACES,
    Once,
    computed_once,
    fed,
    histories,
    inputs,
    require_equal,
    rewritten_run,
)


def variable(*shape: int) -> Any:
    return tf.Variable(np.random.RandomState(sum(shape)).randn(*shape).astype(np.float32))


def products(once: Once) -> Dict[str, List[Optional[int]]]:
    """Sizes of the second operand of each product that has all rows, by the name of its layer."""
    view = once.view
    found = {}
    for name in view.of_op("MatMul"):
        shape = view.shape(view.inputs(name)[1])
        if not name.startswith("repeated_rows/"):
            found[name.split("/")[-2] if "/" in name else name] = list(shape or ())
    return found


def attention(history: Any, item: Any, activation: Any = tf.sigmoid) -> Any:
    """The first layer of attention, as tf.layers.dense writes it."""
    query = tf.tile(item[:, None, :], [1, PLACES, 1])
    pairs = tf.concat([history, query, history - query, history * query], 2)
    return tf.layers.dense(pairs, 5, activation, name="attention")


@pytest.mark.parametrize("activation", [None, tf.nn.relu, tf.nn.leaky_relu, tf.nn.softmax])
def test_only_columns_that_vary_are_multiplied(activation: Any) -> None:
    user, item = inputs()
    joined = tf.concat([item, tf.tanh(user), user], 1)
    result = tf.layers.dense(joined, 3, activation, name="layer")
    once = computed_once({"user": user}, [item], result)
    assert products(once) == {"MatMul": [4, 3]}
    assert "concat" not in once.view
    for rows in (0, 1, 5):
        require_equal(once, fed(user, item, rows), close=True)


def test_a_product_without_a_bias_gets_one() -> None:
    user, item = inputs()
    result = tf.matmul(tf.concat([user, item], 1), variable(8, 3), name="layer")
    once = computed_once({"user": user}, [item], result)
    assert products(once) == {"layer": [4, 3]}
    require_equal(once, fed(user, item), close=True)


def test_comparisons_of_user_and_item_are_one_product_of_the_item() -> None:
    user, item = inputs()
    joined = tf.concat([user, item, user - item, item - user, user * item, item + user], 1)
    result = tf.matmul(joined, variable(24, 3), name="layer") + variable(3)
    once = computed_once({"user": user}, [item], result)
    assert products(once) == {"layer": [4, 3]}
    require_equal(once, fed(user, item), close=True)


@pytest.mark.parametrize("activation", [None, tf.sigmoid])
def test_attention_multiplies_items_with_a_matrix_of_the_history(activation: Any) -> None:
    history, item = histories()
    once = computed_once({"user": history}, [item], attention(history, item, activation))
    assert products(once) == {"MatMul": [COLUMNS, PLACES * 5]}
    for rows in (0, 1, 5):
        require_equal(once, fed(history, item, rows), close=True)


def test_attention_without_tiles() -> None:
    history, item = histories()
    query = item[:, None, :]
    pairs = tf.concat([history - query, query * history, history], 2)
    once = computed_once({"user": history}, [item], tf.layers.dense(pairs, 5))
    assert products(once) == {"MatMul": [COLUMNS, PLACES * 5]}
    require_equal(once, fed(history, item), close=True)


def of_a_layer_that_is_read(user: Any, item: Any) -> List[Any]:
    product = tf.matmul(tf.concat([user, item], 1), variable(8, 3), name="layer")
    return [product, tf.nn.relu(product), tf.exp(product)]


def of_transposed_weights(user: Any, item: Any) -> List[Any]:
    joined = tf.concat([user, item], 1)
    return [tf.matmul(joined, variable(3, 8), transpose_b=True, name="layer")]


def of_joined_rows(user: Any, item: Any) -> List[Any]:
    return [tf.matmul(tf.concat([user, item], 0), variable(4, 3), name="layer")]


def of_items_alone(user: Any, item: Any) -> List[Any]:
    result = tf.matmul(tf.concat([item, item[:, ::-1]], 1), variable(8, 3), name="layer")
    return [tf.concat([result, tf.exp(user)], 1)]


@pytest.mark.parametrize(
    "build, sizes",
    [
        (of_a_layer_that_is_read, [4, 3]),
        (of_transposed_weights, [3, 8]),
        (of_joined_rows, [4, 3]),
        (of_items_alone, [8, 3]),
    ],
)
def test_other_products_predict_the_same(
    build: Callable[[Any, Any], List[Any]], sizes: List[int]
) -> None:
    user, item = inputs()
    once = computed_once({"user": user}, [item], build(user, item))
    assert products(once) == {"layer": sizes}
    require_equal(once, fed(user, item), close=True)


def test_a_history_of_any_length_is_left_as_it_is() -> None:
    history = tf.placeholder(tf.float32, [None, None, COLUMNS], "user")
    item = tf.placeholder(tf.float32, [None, COLUMNS], "item")
    query = tf.tile(item[:, None, :], [1, tf.shape(history)[1], 1])
    pairs = tf.concat([history, query, history * query], 2)
    once = computed_once({"user": history}, [item], tf.layers.dense(pairs, 5))
    assert products(once) == {"Tensordot": [12, 5]}
    feeds = {history: np.ones([2, 6, COLUMNS]), item: np.ones([2, COLUMNS])}
    require_equal(once, feeds, close=True)


def test_items_must_have_as_many_rows_as_the_user() -> None:
    history, item = histories()
    query = item[:, None, :]
    pairs = tf.reshape(tf.concat([history - query, query * history], 2), [-1, 8])
    product = tf.matmul(pairs, tf.ones([8, 5]))
    once = computed_once({"user": history}, [item], product)
    feeds = {**fed(history, item, 4), item: np.ones([1, COLUMNS])}
    with pytest.raises(tf.errors.InvalidArgumentError, match="has 4 rows of user and 1 of item"):
        rewritten_run(once, feeds)
