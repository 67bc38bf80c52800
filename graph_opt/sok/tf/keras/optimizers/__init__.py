"""SparseOperationKit 1: `sparse_operation_kit.tf.keras.optimizers`."""

from __future__ import annotations

from graph_opt.sok.tf.keras.optimizers.adam import Adam
from graph_opt.sok.tf.keras.optimizers.lazy_adam import LazyAdamOptimizer

__all__ = ["Adam", "LazyAdamOptimizer"]
