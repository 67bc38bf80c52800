"""Whether tensors are computed inside of a tf.cond or a tf.while_loop of TensorFlow 1."""

from __future__ import annotations

from typing import Dict, Iterable, Optional

from graph_opt.graph.view import GraphView
from graph_opt.rules.op_names import INTO_CONTROL_FLOW, OUT_OF_CONTROL_FLOW


def enclosing_control_flow(view: GraphView, names: Iterable[str]) -> Optional[str]:
    """A Switch or Enter that lets the nodes run, or None where they run in every step.

    Upstream of a node, what a Merge or an Exit ends is closed; what is left open encloses it.

    Args:
      view: The graph.
      names: Nodes.
    """
    if not any(view.of_op(op) for op in INTO_CONTROL_FLOW):
        return None
    # How many constructs were left on the way up; where several ways meet, the fewest.
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
