"""Whether one tensor is computed from another and constants, by ops of a given set."""

from __future__ import annotations

from typing import AbstractSet, Dict, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef

_LARGEST_COMPUTATION = 40


def computed_from(
    view: GraphView, result: TensorRef, source: TensorRef, ops: AbstractSet[str]
) -> Optional[Tuple[str, ...]]:
    """The nodes that compute a tensor from `source` and constants, constants among them.

    Args:
      view: The graph.
      result: What is computed.
      source: What of.
      ops: The only op types allowed in between; `Const` is one to be named.

    Returns:
      None where other ops or inputs take part, `source` takes none, or nodes are too many.
    """
    nodes: Dict[str, None] = {result.node: None}
    stack = [result.node]
    reached = False
    while stack:
        for tensor in view.inputs(stack.pop()):
            if tensor == source:
                reached = True
            elif tensor.node not in nodes:
                nodes[tensor.node] = None
                stack.append(tensor.node)
                if view.op(tensor.node) not in ops or len(nodes) > _LARGEST_COMPUTATION:
                    return None
    return tuple(nodes) if reached and view.op(result.node) in ops else None
