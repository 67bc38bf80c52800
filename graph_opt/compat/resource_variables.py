"""Resource variables, for classes that derive from them."""

from __future__ import annotations

from tensorflow.python.ops.resource_variable_ops import ResourceVariable

__all__ = ["ResourceVariable"]
