"""SparseOperationKit 1: `sparse_operation_kit.tf`."""

from __future__ import annotations

from graph_opt.sok.tf import keras

__all__ = ["keras"]
