"""Whether tensors are computed inside a tf.cond or tf.while_loop of TensorFlow 1."""

from __future__ import annotations

from typing import Dict, Iterable, Optional

from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, OUT_OF_CONTROL_FLOW
from graph_opt.graph.view import GraphView


def enclosing_control_flow(view: GraphView, names: Iterable[str]) -> Optional[str]:
    """A Switch or Enter that the nodes' execution depends on; None if they run in every step.

    Upstream of a node, a Merge or Exit closes a construct; a construct left open encloses the node.

    Args:
      view: The graph.
      names: Nodes.
    """
    if not any(view.of_op(op) for op in INTO_CONTROL_FLOW):
        return None
    # The number of constructs exited on the way up; where several paths meet, the smallest.
    left: Dict[str, int] = dict.fromkeys(names, 0)
    stack = list(left)
    while stack:
        name = stack.pop()
        count = left[name]
        op = view.op(name)
        if op in INTO_CONTROL_FLOW:
            if count == 0:
                return name
            count -= 1
        elif op in OUT_OF_CONTROL_FLOW:
            count += 1
        for source in view.predecessors(name):
            if source not in left or left[source] > count:
                left[source] = count
                stack.append(source)
    return None
