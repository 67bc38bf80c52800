"""Eager tensors, and what gradient tapes must be told."""

from __future__ import annotations

from typing import Any, ContextManager

from tensorflow.python.eager import context, tape
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

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


def owner_of_resource(handle: tf.Tensor) -> Any:
    """Deletes an eager resource when this object is deleted; None for a graph's."""
    if not is_eager(handle):
        return None
    return resource_variable_ops.EagerResourceDeleter(handle, handle.device)


def executing_eagerly() -> ContextManager[None]:
    """Executes ops eagerly, whatever graph is the default."""
    mode: ContextManager[None] = context.eager_mode()
    return mode
