"""Layers that follow one at each place of a history: one op computes all of them."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

import hypothesis.strategies as st
import pytest
from hypothesis import given

from graph_opt.compat import tf
from tests.example_share import example_share
from tests.passes.repeated_rows.once import (
    PLACES,
    Once,
    computed_once,
    fed,
    histories,
    require_equal,
)

AT_PLACES = "LayersAtPlaces"


def pairs(history: Any, item: Any) -> Any:
    """What the first layer of attention reads."""
    query = tf.tile(item[:, None, :], [1, PLACES, 1])
    return tf.concat([history, query, history - query, history * query], 2)


def hidden(activation: Any = tf.sigmoid) -> Tuple[Any, Any, Any]:
    """A history, an item, and the first layer over both."""
    history, item = histories()
    return history, item, tf.layers.dense(pairs(history, item), 5, activation, name="first")


def activations(once: Once) -> Optional[List[str]]:
    """Those of the layers in one op; None if there is none."""
    found = once.view.of_op(AT_PLACES)
    if not found:
        return None
    listed = once.view.attribute(found[0], "activations")
    assert len(found) == 1 and listed is not None
    return [each.decode() for each in listed.list.s]


def test_layers_at_places_are_one_op() -> None:
    history, item, layer = hidden()
    layer = tf.layers.dense(layer, 4, tf.nn.relu)
    scores = tf.nn.softmax(tf.layers.dense(layer, 1)[:, :, 0])
    once = computed_once({"user": history}, [item], tf.reduce_sum(history * scores[:, :, None], 1))
    assert activations(once) == ["Sigmoid", "Relu", "Identity"]
    products = [name for name in once.view.of_op("MatMul") if "repeated" not in name]
    assert products == []
    for rows in (0, 1, 5, 40):
        require_equal(once, fed(history, item, rows), close=True)


@pytest.mark.parametrize("bias", [True, False])
def test_layers_with_and_without_biases(bias: bool) -> None:
    history, item, layer = hidden(None)
    result = tf.layers.dense(layer, 3, tf.nn.relu, use_bias=bias)
    once = computed_once({"user": history}, [item], result)
    assert activations(once) == ["Identity", "Relu"]
    require_equal(once, fed(history, item), close=True)


def test_the_last_activation_may_be_another() -> None:
    history, item, layer = hidden()
    once = computed_once({"user": history}, [item], tf.layers.dense(layer, 3, tf.nn.softplus))
    assert activations(once) == ["Sigmoid", "Identity"]
    require_equal(once, fed(history, item), close=True)


def test_a_result_of_rows_and_places_keeps_its_shape() -> None:
    history, item = histories()
    flat = tf.reshape(pairs(history, item), [-1, 16])
    layer = tf.layers.dense(flat, 5, tf.nn.relu)
    once = computed_once({"user": history}, [item], tf.layers.dense(layer, 2))
    assert activations(once) == ["Relu", "Identity"]
    require_equal(once, fed(history, item), close=True)


@pytest.mark.parametrize("follows, expected", [(True, ["Identity", "Identity"]), (False, None)])
def test_shapes_may_follow_from_numbers_alone(follows: bool, expected: Optional[List[str]]) -> None:
    """TensorFlow does not know the shape of a Reshape to a shape that is computed."""
    history, item, layer = hidden(None)
    sizes = tf.shape(layer)
    flat = tf.reshape(layer, tf.stack([sizes[0] * PLACES, tf.reduce_prod(tf.gather(sizes, [2]))]))
    assert flat.shape.as_list() == [None, None]
    result = tf.matmul(flat, tf.ones([5, 2])) if follows else tf.exp(flat)
    once = computed_once({"user": history}, [item], result)
    assert activations(once) == expected
    require_equal(once, fed(history, item), close=True)


def of_a_layer_that_is_fetched(layer: Any) -> List[Any]:
    return [layer, tf.layers.dense(layer, 1)]


def of_a_layer_that_others_read(layer: Any) -> List[Any]:
    return [tf.layers.dense(layer, 1), tf.reduce_sum(layer, 1)]


def of_a_shape_that_others_read(layer: Any) -> List[Any]:
    return [tf.layers.dense(layer, 1), tf.reduce_sum(tf.shape(layer))]


def of_places_in_another_order(layer: Any) -> List[Any]:
    return [tf.layers.dense(tf.transpose(layer, [0, 2, 1]), 1)]


def of_several_places_at_once(layer: Any) -> List[Any]:
    return [tf.layers.dense(tf.reshape(layer, [-1, PLACES * 5]), 2)]


def of_weights_of_a_request(layer: Any) -> List[Any]:
    weights = tf.tanh(tf.reduce_sum(layer)) * tf.ones([5, 2])
    return [tf.matmul(tf.reshape(layer, [-1, 5]), weights)]


def of_transposed_weights(layer: Any) -> List[Any]:
    weights = tf.reshape(tf.range(10.0), [2, 5])
    return [tf.matmul(tf.reshape(layer, [-1, 5]), weights, transpose_b=True)]


def of_many_columns(layer: Any) -> List[Any]:
    return [tf.layers.dense(layer, 500)]


def that_waits(layer: Any) -> List[Any]:
    with tf.control_dependencies([tf.no_op()]):
        return [tf.matmul(tf.reshape(layer, [-1, 5]), tf.ones([5, 1]))]


@pytest.mark.parametrize(
    "build",
    [
        of_a_layer_that_is_fetched,
        of_a_layer_that_others_read,
        of_a_shape_that_others_read,
        of_places_in_another_order,
        of_several_places_at_once,
        of_weights_of_a_request,
        of_transposed_weights,
        of_many_columns,
        that_waits,
    ],
)
def test_other_layers_are_left_to_tensorflow(build: Callable[[Any], List[Any]]) -> None:
    history, item, layer = hidden()
    once = computed_once({"user": history}, [item], build(layer))
    assert activations(once) is None
    require_equal(once, fed(history, item), close=True)


@pytest.mark.parametrize("activation", [tf.nn.elu, tf.tanh])
def test_a_first_layer_of_another_activation_is_left_to_tensorflow(activation: Any) -> None:
    history, item, layer = hidden(activation)
    once = computed_once({"user": history}, [item], tf.layers.dense(layer, 1))
    assert activations(once) is None
    require_equal(once, fed(history, item), close=True)


def test_layers_of_float64_are_left_to_tensorflow() -> None:
    history, item = histories()
    both = pairs(tf.cast(history, tf.float64), tf.cast(item, tf.float64))
    layer = tf.layers.dense(tf.layers.dense(both, 5, tf.sigmoid), 1)
    once = computed_once({"user": history}, [item], layer)
    assert activations(once) is None
    require_equal(once, fed(history, item), close=True)


LAYERS = st.tuples(
    st.integers(1, 40), st.sampled_from([None, tf.nn.relu, tf.sigmoid, tf.tanh]), st.booleans()
)


@example_share(0.1)
@given(layers=st.lists(LAYERS, min_size=1, max_size=4), rows=st.integers(0, 70))
def test_any_layers_predict_the_same(layers: List[Tuple[int, Any, bool]], rows: int) -> None:
    with tf.Graph().as_default():
        history, item = histories()
        layer = pairs(history, item)
        for width, activation, bias in layers:
            layer = tf.layers.dense(layer, width, activation, use_bias=bias)
        once = computed_once({"user": history}, [item], layer)
        require_equal(once, fed(history, item, rows), close=True)
