"""Nodes that TensorFlow must run one by one, though they compute the same from the same inputs."""

from __future__ import annotations

from typing import Any, Iterable

from graph_opt.compat.operation_marks import mark_once

_UNMERGED = "_unmerged"


def keep_apart(operations: Iterable[Any]) -> None:
    """Has TensorFlow not merge these operations with equal ones.

    It merges stateless operations of one type with the same inputs and attributes, whatever their
    names are; so each of these gets an attribute of its own. Which of several stays is not the same
    in all processes: nodes are visited in the order of their addresses (`GetReversePostOrder`,
    graph/algorithm.cc).

    Args:
      operations: Of one graph, before a session runs them.

    Example:
      >>> keep_apart(op for op in graph.get_operations() if op.type == "HorovodAllgather")
    """
    for operation in operations:
        if not operation.op_def.is_stateful:
            mark_once(operation, _UNMERGED, operation.name)
