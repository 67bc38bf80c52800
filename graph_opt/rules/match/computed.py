"""Whether a tensor is computed only from another and constants, by ops of a given set."""

from __future__ import annotations

from typing import AbstractSet, Dict, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef

_LARGEST_COMPUTATION = 40


def computed_from(
    view: GraphView, result: TensorRef, source: TensorRef, ops: AbstractSet[str]
) -> Optional[Tuple[str, ...]]:
    """The nodes that compute a tensor from `source` and constants, including the constants.

    Args:
      view: The graph.
      result: The tensor that is computed.
      source: The tensor that it must be computed from.
      ops: The only op types allowed in between; they must include `Const` if constants are.

    Returns:
      None if other ops or inputs are involved, `source` is not, or there are too many nodes.
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
