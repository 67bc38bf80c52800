"""What operations of a `tf.Graph` need."""

from __future__ import annotations

from typing import Any, Iterable, List, Set


class Edges:
    """What the operations of a live graph read and wait for."""

    def inputs(self, operation: Any) -> List[Any]:
        """The tensors that an operation reads."""
        return list(operation.inputs)

    def controls(self, operation: Any) -> List[Any]:
        """The operations that it waits for."""
        return list(operation.control_inputs)


_LIVE = Edges()


def operations_behind(
    operations: Iterable[Any], fed: Iterable[Any] = (), edges: Edges = _LIVE
) -> Set[Any]:
    """All operations that running these would run, including themselves.

    Args:
      operations: Where to start.
      fed: Tensors whose values are fed, so that what computes them does not run for their sake.
      edges: What operations read and wait for, if not what they do now.
    """
    given = {tensor.name for tensor in fed}
    reached = set(operations)
    waiting = list(reached)
    while waiting:
        operation = waiting.pop()
        behind = [tensor.op for tensor in edges.inputs(operation) if tensor.name not in given]
        for other in behind + edges.controls(operation):
            if other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached
