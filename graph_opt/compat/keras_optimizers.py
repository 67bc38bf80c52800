"""Keras' optimizers of `OptimizerV2`, which releases have in two places."""

from __future__ import annotations

import sys
from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.version_names import IS_VERSION_1

# `tf.keras.optimizers.legacy` since TensorFlow 2.11.
legacy: Any = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
_EAGER_FIT = "tensorflow.python.keras.engine.training_eager"


def calls_of_eager_fit() -> bool:
    """Whether the function that asks was called by `Model.fit` of TensorFlow 1, eagerly.

    That computes gradients by a tape of its own, where later releases ask the optimizer for them.
    """
    return IS_VERSION_1 and sys._getframe(2).f_globals.get("__name__") == _EAGER_FIT
