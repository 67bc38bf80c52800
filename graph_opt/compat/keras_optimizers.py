"""Keras' optimizers of `OptimizerV2`, which releases have in two places."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf

# `tf.keras.optimizers.legacy` since TensorFlow 2.11.
legacy: Any = getattr(tf.keras.optimizers, "legacy", tf.keras.optimizers)
