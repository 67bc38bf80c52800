"""The op LayersAtPlaces: it computes what TensorFlow's layers do, and refuses other sizes."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.library import load_library

ROWS, WIDTH, PLACES = 7, 3, 4
CLOSE = 1e-6


def given(**other: Tuple[int, ...]) -> Dict[str, Any]:
    """Arguments for layers of 5 columns and 2; `other` sizes of some of them."""
    sizes = {
        "bases": (ROWS, WIDTH),
        "matrix": (WIDTH, PLACES * 5),
        "added": (PLACES * 5,),
        "weights": (5, 2),
        "biases": (2,),
        **other,
    }
    random = np.random.RandomState(3)
    found: Dict[str, Any] = {
        key: random.randn(*size).astype(np.float32) for key, size in sizes.items()
    }
    return {**found, "weights": [found["weights"]], "biases": [found["biases"]]}


def computed(arguments: Dict[str, Any], activations: Tuple[str, ...]) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(
            load_library().layers_at_places(places=PLACES, activations=activations, **arguments)
        )


def test_layers_are_those_of_tensorflow() -> None:
    arguments = given()
    with tf.Graph().as_default(), tf.Session() as session:
        hidden = tf.sigmoid(arguments["bases"] @ arguments["matrix"] + arguments["added"])
        hidden = tf.reshape(hidden, [ROWS, PLACES, 5])
        expected = session.run(
            tf.nn.relu(tf.tensordot(hidden, arguments["weights"][0], 1) + arguments["biases"][0])
        )
    found = computed(arguments, ("Sigmoid", "Relu"))
    np.testing.assert_allclose(found, expected, CLOSE, CLOSE)
    assert found.any() and not found.all()


@pytest.mark.parametrize(
    "other, message",
    [
        ({"bases": (ROWS, 2)}, r"bases have shape \[7,2\], the matrix \[3,20\], with 20 numbers"),
        ({"matrix": (WIDTH, 16)}, r"the matrix \[3,16\], with 20 numbers added; need"),
        ({"matrix": (WIDTH, 21), "added": (21,)}, "as many numbers, for 4 places"),
        ({"weights": (6, 2)}, r"weights have shape \[6,2\], .* need 5 rows, and a bias for each"),
        ({"biases": (3,)}, r"with a bias of shape \[3\]; need 5 rows"),
    ],
)
def test_other_sizes_are_told(other: Dict[str, Tuple[int, ...]], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        computed(given(**other), ("Sigmoid", "Identity"))


def test_each_layer_has_an_activation() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="3 activations of 2 layers"):
        computed(given(), ("Sigmoid", "Relu", "Relu"))
