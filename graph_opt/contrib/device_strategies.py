"""`tf.contrib.training`: which parameter server has which variable."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from graph_opt.compat import tf


class GreedyLoadBalancingStrategy:
    """The `ps_strategy` that gives each variable to the server with the least load so far.

    Args:
      num_tasks: Number of parameter servers.
      load_fn: The load that an operation adds, a number.

    Example:
      >>> strategy = GreedyLoadBalancingStrategy(2, byte_size_load_fn)
      >>> tf.train.replica_device_setter(2, ps_strategy=strategy)
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        self._load_of = load_fn
        self._loads = np.zeros(num_tasks)

    def __call__(self, operation: Any) -> int:
        """Number of the server that gets the operation."""
        task = int(np.argmin(self._loads))
        self._loads[task] += self._load_of(operation)
        return task


def byte_size_load_fn(operation: Any) -> int:
    """Bytes of a variable.

    Args:
      operation: That of the variable.

    Raises:
      ValueError: It has several outputs, or its shape is not known.
    """
    if len(operation.outputs) != 1:
        raise ValueError("byte_size_load_fn: {!r} has not one output".format(operation.name))
    output = operation.outputs[0]
    if output.dtype == tf.resource:
        dtype, shape = tf.as_dtype(operation.get_attr("dtype")), operation.get_attr("shape")
    else:
        dtype, shape = output.dtype.base_dtype, output.shape
        shape = shape if shape.is_fully_defined() else operation.get_attr("shape")
    shape = tf.TensorShape(shape)
    shape.assert_is_fully_defined()
    return int(shape.num_elements()) * int(dtype.size)
