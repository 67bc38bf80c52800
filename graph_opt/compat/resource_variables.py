"""Resource variables that are derived from, and how gradient tapes learn that one is read."""

from __future__ import annotations

from typing import Any

from tensorflow.python.eager import tape
from tensorflow.python.ops.resource_variable_ops import ResourceVariable

__all__ = ["ResourceVariable", "handle_for_op"]


def handle_for_op(variable: Any) -> Any:
    """The handle of a variable that an op of ours will read, of which open tapes are told.

    Args:
      variable: A resource variable.
    """
    tape.variable_accessed(variable)
    return variable.handle
