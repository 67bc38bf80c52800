"""What tests need that not every release of TensorFlow has."""

from __future__ import annotations

from typing import Any

import pytest

from graph_opt.compat import tf

_RELEASE = "TensorFlow " + tf.version.VERSION

needs_estimators = pytest.mark.skipif(
    not hasattr(tf, "estimator"), reason=_RELEASE + " has no Estimators"
)


def reshape_gradient_reads_shape() -> bool:
    """Whether the gradient of a reshape asks for the shape of its input at run time."""
    with tf.Graph().as_default() as graph:
        rows = tf.placeholder(tf.float32, [None, 8])
        tf.gradients(tf.reshape(rows, [-1, 2, 4]), rows)
        return any(operation.type == "Shape" for operation in graph.get_operations())


def keras_optimizers() -> Any:
    """The module of Keras' optimizers that train in graphs."""
    optimizers = tf.keras.optimizers
    return getattr(optimizers, "legacy", optimizers)
