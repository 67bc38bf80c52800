"""Sums of a repeated history, weighted for each item."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from graph_opt.compat import tf
from tests.passes.repeated_rows.once import (
    COLUMNS,
    PLACES,
    computed_once,
    fed,
    histories,
    require_equal,
)


def weights_of(item: Any) -> Any:
    return tf.nn.softmax(item[:, :PLACES])


def by_a_sum(history: Any, item: Any) -> Any:
    return tf.reduce_sum(history * weights_of(item)[:, :, None], 1)


def by_a_sum_from_the_left(history: Any, item: Any) -> Any:
    return tf.reduce_sum(tf.expand_dims(weights_of(item), 2) * history, 1)


def by_a_product(history: Any, item: Any) -> Any:
    return tf.matmul(weights_of(item)[:, None, :], history)


def of_two_heads(history: Any, item: Any) -> Any:
    weights = tf.stack([weights_of(item), weights_of(-item)], 1)
    return tf.matmul(weights, history)


def by_a_product_over_columns(history: Any, item: Any) -> Any:
    return tf.matmul(item[:, None, :], history, transpose_b=True)


@pytest.mark.parametrize(
    "build",
    [by_a_sum, by_a_sum_from_the_left, by_a_product, of_two_heads, by_a_product_over_columns],
)
def test_one_product_of_the_weights_with_the_history(build: Callable[[Any, Any], Any]) -> None:
    history, item = histories()
    once = computed_once({"user": history}, [item], build(history, item))
    view = once.view
    assert not view.of_op("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
    (product,) = view.of_op("MatMul")
    assert view.shape(view.inputs(product)[1]) == (PLACES, COLUMNS)
    for rows in (0, 1, 5):
        require_equal(once, fed(history, item, rows), close=True)


def over_columns(history: Any, item: Any) -> Any:
    return tf.reduce_sum(history * item[:, None, :], 2)


def over_places_of_each_column(history: Any, item: Any) -> Any:
    return tf.reduce_sum(history * item[:, None, :], 1)


def of_kept_axes(history: Any, item: Any) -> Any:
    return tf.reduce_sum(history * weights_of(item)[:, :, None], 1, keepdims=True)


@pytest.mark.parametrize("build", [over_columns, over_places_of_each_column, of_kept_axes])
def test_other_sums_predict_the_same(build: Callable[[Any, Any], Any]) -> None:
    history, item = histories()
    once = computed_once({"user": history}, [item], build(history, item))
    assert not once.view.of_op("MatMul")
    require_equal(once, fed(history, item), close=True)
