"""What operations of a `tf.Graph` need."""

from __future__ import annotations

from typing import Any, Iterable, Set


def operations_behind(operations: Iterable[Any], fed: Iterable[Any] = ()) -> Set[Any]:
    """All operations that running these would run, including themselves.

    Args:
      operations: Where to start.
      fed: Tensors whose values are fed, so that what computes them does not run for their sake.
    """
    given = {tensor.name for tensor in fed}
    reached = set(operations)
    waiting = list(reached)
    while waiting:
        operation = waiting.pop()
        behind = [tensor.op for tensor in operation.inputs if tensor.name not in given]
        for other in behind + list(operation.control_inputs):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
