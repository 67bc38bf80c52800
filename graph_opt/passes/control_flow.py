"""Which nodes are inside branches and loops of TensorFlow 1."""

from __future__ import annotations

from typing import Dict, List, Tuple

from graph_opt.graph.control_flow_ops import BACK_EDGE_SOURCES, ENTERS, EXITS, MERGES, SWITCHES
from graph_opt.graph.view import GraphView

Frames = Tuple[str, ...]


def depths(view: GraphView) -> Dict[str, int]:
    """In how many branches and loops each node is."""
    found: Dict[str, int] = {}
    for name in view.topological_order() or ():
        depth = max((found[each] for each in view.predecessors(name)), default=0)
        found[name] = max(0, depth + _change(view, name))
    return found


def frame_of(view: GraphView, name: str) -> str:
    """The loop that an Enter leads into."""
    return str(view.nodes[name].attr["frame_name"].s.decode("utf-8"))


def loops_of(view: GraphView) -> Dict[str, Frames]:
    """The loops that each node is in, outermost first; only nodes that are."""
    if not view.of_op(*ENTERS):
        return {}
    found: Dict[str, Frames] = {}
    for name in view.topological_order() or ():
        before: List[Frames] = [found.get(each, ()) for each in view.predecessors(name)]
        outside = [
            frames[:-1] if view.op(each) in EXITS else frames
            for each, frames in zip(view.predecessors(name), before)
        ]
        frames = max(outside, key=len, default=())
        if view.op(name) in ENTERS:
            frames = (*frames, frame_of(view, name))
        if frames:
            found[name] = frames
    return found


def _change(view: GraphView, name: str) -> int:
    op = view.op(name)
    if op in ENTERS:
        return 1
    if op in EXITS:
        return -1
    if op in SWITCHES:
        condition = view.through_identity(view.inputs(name)[1])
        return int(view.op(condition.node) != "LoopCond")
    if op in MERGES:
        before = [view.op(tensor.node) for tensor in view.inputs(name)]
        return -int(BACK_EDGE_SOURCES.isdisjoint(before))
    return 0
