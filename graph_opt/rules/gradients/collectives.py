"""Gradients as large as a table that ranks add to each other's, as `sparse_as_dense` asks."""

from __future__ import annotations

from typing import Optional

from graph_opt.compat.stateful_ops import called_functions
from graph_opt.graph.view import GraphView, TensorRef

_COLLECTIVES = ("HorovodAllreduce", "HorovodGroupedAllreduce")
# Fewer nodes are between such a collective and an update: a scale, a cast, a condition.
_DEEPEST = 8


def dense_collective(view: GraphView, gradient: TensorRef) -> Optional[str]:
    """The op that adds up the gradients of all ranks; None if none is nearby.

    Args:
      view: The graph.
      gradient: What an update takes.
    """
    level = [gradient.node]
    for _ in range(_DEEPEST):
        names = called_functions(view.nodes[name] for name in level)
        called = [view.functions.get(name) for name in names]
        ops = [view.op(name) for name in level]
        ops += [node.op for one in called if one is not None for node in one.node_def]
        found = next((op for op in ops if op in _COLLECTIVES), None)
        if found is not None:
            return found
        level = [tensor.node for name in level for tensor in view.inputs(name)]
    return None
