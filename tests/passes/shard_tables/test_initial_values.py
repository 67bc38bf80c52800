"""Initial values that ranks can make their rows of without making all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.shard_tables.initial_values import Drawn, drawn, one_number

SHAPE = [60, 20]


def found(initializer: Any, find: Any) -> Any:
    """What is known of the values that a variable starts with."""
    with tf.Graph().as_default() as graph:
        variable = tf.get_variable("table", SHAPE, initializer=initializer)
        view = GraphView(graph.as_graph_def(add_shapes=True))
        value = view.inputs(variable.initializer.name)[1]
        return find(view, TensorRef(*value))


@pytest.mark.parametrize(
    "initializer, number",
    [
        (tf.zeros_initializer(), 0.0),
        (tf.ones_initializer(), 1.0),
        (tf.constant_initializer(0.1), np.float32(0.1)),
        (tf.constant_initializer(np.arange(1200.0)), None),
        (tf.random_uniform_initializer(), None),
    ],
)
def test_one_number_for_all_elements(initializer: Any, number: Any) -> None:
    assert found(initializer, one_number) == number


@pytest.mark.parametrize(
    "initializer, expected",
    [
        (tf.random_uniform_initializer(-2, 3, seed=5), Drawn("uniform", -2, 3, (87654321, 5))),
        (tf.random_normal_initializer(1, 2), Drawn("normal", 1, 2, (0, 0))),
        (tf.truncated_normal_initializer(0, 0.5), Drawn("truncated_normal", 0, 0.5, (0, 0))),
        (tf.glorot_uniform_initializer(), Drawn("uniform", -0.2738613, 0.2738613, (0, 0))),
        (tf.zeros_initializer(), None),
        (tf.orthogonal_initializer(), None),
    ],
)
def test_distributions(initializer: Any, expected: Any) -> None:
    actual = found(initializer, drawn)
    if expected is None:
        assert actual is None
    else:
        assert actual[::3] == expected[::3]
        np.testing.assert_allclose(actual[1:3], expected[1:3], rtol=1e-6)
