"""Eager tensors, and what gradient tapes must be told."""

from __future__ import annotations

from typing import Any

from tensorflow.python.eager import tape
from tensorflow.python.framework import ops

from graph_opt.compat import tf


def is_eager(tensor: Any) -> bool:
    """Whether a tensor has a value, rather than an op in a graph."""
    return isinstance(tensor, ops.EagerTensor)


def handle_of(variable: Any) -> tf.Tensor:
    """What an op gets that reads a variable in place.

    Gradient tapes are told of the read, as they are by the variable's own methods.

    Args:
      variable: A resource variable, or a reference variable.

    Returns:
      The handle; for a reference variable its value, which is its memory.
    """
    handle = getattr(variable, "handle", None)
    if handle is None or handle.dtype != tf.resource:
        return tf.convert_to_tensor(variable)
    tape.variable_accessed(variable)
    return handle
