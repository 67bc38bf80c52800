"""Keras' graph mode without runs of its session before the graph trains.

What is added to a graph later cannot change what a session already has, so a session whose first
run comes too early is left to TensorFlow. Keras runs its session early in three places: `Model.fit`
initializes the iterator of a dataset, and resets metrics before it asks a generator for a batch,
before it adds gradients and updates; and where a functional model calls an op of TensorFlow, the
op's constants are computed at once, such as the axis of `tf.concat`.
"""

from __future__ import annotations

import functools
from typing import Any, Mapping

import numpy as np
import tensorflow as stock_tensorflow

from graph_opt.compat import tf
from graph_opt.compat.imported_attributes import ImportedAttribute
from graph_opt.compat.version_names import IS_VERSION_1

_ARRAYS = (list, tuple, dict)


def _fit(stock: Any) -> Any:
    @functools.wraps(stock)
    def fit(self: Any, x: Any = None, *arguments: Any, **named: Any) -> Any:
        if _runs_before_it_trains(self, x):
            self._update_sample_weight_modes([True] if _is_weighted(x, named) else None)
            self._make_train_function()
        return stock(self, x, *arguments, **named)

    return fit


def _runs_before_it_trains(model: Any, x: Any) -> bool:
    """Whether the session runs before `fit` builds the training of this model.

    It does not for arrays and tensors, except in TensorFlow 1. Models that `fit` itself builds,
    from the first batch, and those of distribution strategies are left to Keras.
    """
    is_array = x is None or tf.is_tensor(x) or hasattr(x, "__array__") or isinstance(x, _ARRAYS)
    if is_array and not IS_VERSION_1:
        return False
    is_ready = model._is_compiled and model.built and bool(model.inputs)
    return is_ready and not (model.run_eagerly or model._distribution_strategy)


def _is_weighted(x: Any, named: Mapping[str, Any]) -> bool:
    """Whether examples have weights, for which Keras builds another loss."""
    if not isinstance(x, stock_tensorflow.data.Dataset):
        return named.get("class_weight") is not None
    types = tf.data.get_output_types(x)
    return isinstance(types, tuple) and len(types) == 3


def _function(stock: Any) -> Any:
    @functools.wraps(stock)
    def function(inputs: Any, outputs: Any, *arguments: Any, **named: Any) -> Any:
        known = None
        if not inputs and not arguments and not named and isinstance(outputs, tf.Tensor):
            known = tf.get_static_value(outputs)
        # Also made where it is not called: its nodes decide on the seeds of later ones.
        made = stock(inputs, outputs, *arguments, **named)
        if known is None:
            return made
        return lambda _: known[()] if isinstance(known, np.ndarray) else known

    return function


# Keras 2 is a part of TensorFlow 1. Beside later releases it is a package, whose modules moved into
# `src` with 2.13, and of another name where TensorFlow has Keras 3.
_TRAINING = (
    ["tensorflow.python.keras.engine.training"]
    if IS_VERSION_1
    else [
        "keras.engine.training_v1",
        "keras.src.engine.training_v1",
        "tf_keras.src.engine.training_v1",
    ]
)

KERAS_SESSIONS = (
    *(ImportedAttribute(module, "Model.fit", _fit) for module in _TRAINING),
    *(
        ImportedAttribute(module.partition(".engine")[0] + ".backend", "function", _function)
        for module in _TRAINING
    ),
)
"""What is replaced once Keras has been imported."""
