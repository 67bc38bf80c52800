"""SparseOperationKit 1: `sparse_operation_kit.tf.keras`."""

from __future__ import annotations

from graph_opt.sok.tf.keras import mixed_precision, optimizers

__all__ = ["mixed_precision", "optimizers"]
