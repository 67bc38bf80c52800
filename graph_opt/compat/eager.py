"""Eager tensors, and what gradient tapes must be told."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterator, Mapping, Sequence

from tensorflow.python.eager import context, tape
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from graph_opt.compat import tf

try:
    from tensorflow.python.eager import record
except ImportError:  # TensorFlow before 2.13
    record = tape


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


@contextlib.contextmanager
def differentiated_by(gradients: Mapping[str, str]) -> Iterator[None]:
    """Gives ops of another library gradient functions of ours, without a node around them.

    Gradients of a graph are those registered under other names. Gradient tapes, which know no
    other names than those of the ops, record nothing: tell them with `record_gradient`.

    Args:
      gradients: For types of ops, the names that their gradient functions are registered under.

    Example:
      >>> with differentiated_by({"HorovodAlltoall": "GraphOptHorovodAlltoall"}):
      ...     received, splits = hvd.alltoall(tensor, splits)
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(record.stop_recording())
        if not tf.executing_eagerly():
            graph = tf.get_default_graph()
            stack.enter_context(graph.gradient_override_map(dict(gradients)))
        yield


def record_gradient(
    name: str, result: tf.Tensor, source: tf.Tensor, backward: Callable[[tf.Tensor], tf.Tensor]
) -> None:
    """Tells gradient tapes how a tensor follows from another.

    Args:
      name: Of what was computed.
      result: What came out.
      source: What went in.
      backward: From the gradient of `result` to that of `source`.
    """

    def gradients(gradient: tf.Tensor) -> Sequence[tf.Tensor]:
        return [backward(gradient)]

    record.record_operation(name, [result], [source], gradients)


def owner_of_resource(handle: tf.Tensor) -> Any:
    """Deletes an eager resource when this object is deleted; None for a graph's."""
    if not is_eager(handle):
        return None
    return resource_variable_ops.EagerResourceDeleter(handle, handle.device)


def executing_eagerly() -> ContextManager[None]:
    """Executes ops eagerly, whatever graph is the default."""
    mode: ContextManager[None] = context.eager_mode()
    return mode
