"""Which nodes are inside branches and loops of TensorFlow 1.

branch   Switch -> ... -> Merge
loop     Enter -> Merge -> Switch -> ... -> NextIteration -> Merge;  Switch -> Exit
"""

from __future__ import annotations

from typing import Dict

from graph_opt.graph.view import GraphView

OUT_OF = frozenset(["Merge", "RefMerge", "Exit", "RefExit"])
"""The ops that end one."""
_ENTERS = frozenset(["Enter", "RefEnter"])
_EXITS = frozenset(["Exit", "RefExit"])
_SWITCHES = frozenset(["Switch", "RefSwitch"])
_MERGES = frozenset(["Merge", "RefMerge"])
_NEXT = frozenset(["NextIteration", "RefNextIteration"])


def depths(view: GraphView) -> Dict[str, int]:
    """In how many branches and loops each node is."""
    found: Dict[str, int] = {}
    for name in view.topological_order() or ():
        depth = max((found[each] for each in view.predecessors(name)), default=0)
        found[name] = max(0, depth + _change(view, name))
    return found


def _change(view: GraphView, name: str) -> int:
    op = view.op(name)
    if op in _ENTERS:
        return 1
    if op in _EXITS:
        return -1
    if op in _SWITCHES:
        condition = view.through_identity(view.inputs(name)[1])
        return int(view.op(condition.node) != "LoopCond")
    if op in _MERGES:
        return -int(not any(view.op(tensor.node) in _NEXT for tensor in view.inputs(name)))
    return 0
