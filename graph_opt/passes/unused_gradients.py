"""Gradients that nothing reads but that `tf.gradients` still forces to be computed.

`tf.tuple` ties all gradients of an op together: a NoOp waits for each of them, and an Identity of
each waits for the NoOp. So a gradient whose Identity has no reader (with respect to the weights of
a weighted lookup, or to a denominator) is computed for nothing, and would drag the rows that it
multiplies across the boundary.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Set, Tuple

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.graph.view import GraphView


class UnusedGradients(NamedTuple):
    """Nodes that are computed for nothing, and the control edges that force them to run.

    Attributes:
      nodes: Nodes that need not run.
      released: Control edges (source, NoOp) to cut.
    """

    nodes: Set[str]
    released: Tuple[Tuple[str, str], ...]


def unused_gradients(view: GraphView) -> UnusedGradients:
    """Finds them by structure: a NoOp, the Identity nodes after it, and what only these need."""
    released: List[Tuple[str, str]] = []
    dead: Set[str] = set()
    for group in view.of_op("NoOp"):
        for unread, source in _unread(view, group):
            released.append((source, group))
            dead.add(unread)
    return UnusedGradients(_only_for(view, dead, set(released)), tuple(released))


def _unread(view: GraphView, group: str) -> List[Tuple[str, str]]:
    """Identity nodes of the tuple that nothing reads, with the node that each passes on.

    An earlier pass may have removed such a node from the view; the node that it passed on then
    stands for both.
    """
    controlling = set(view.controls(group))
    waiting = view.control_uses(group)
    if not controlling or not waiting:
        return []
    members: Dict[str, str] = {}
    for name in waiting:
        inputs = view.inputs(name)
        if view.op(name) != "Identity" or len(inputs) != 1 or inputs[0].node not in controlling:
            return []
        members[name] = inputs[0].node
    read = {
        source
        for name, source in members.items()
        if view.node_uses(name) or view.control_uses(name)
    }
    known = set(members.values())
    alone = [name for name in view.controls(group) if name not in known and _is_idle(view, name)]
    unread = [(name, source) for name, source in members.items() if source not in read]
    return unread + [(name, name) for name in alone]


def _is_idle(view: GraphView, name: str) -> bool:
    """Whether a node computes what only a tuple waits for."""
    acts = is_stateful(view.op(name)) or view.op(name) in ("NoOp", "CheckNumerics")
    return not acts and not view.is_read(name) and len(view.control_uses(name)) == 1


def _only_for(view: GraphView, dead: Set[str], released: Set[Tuple[str, str]]) -> Set[str]:
    """The dead nodes, and all stateless nodes that nothing else needs."""
    pending = [tensor.node for name in dead for tensor in view.inputs(name)]
    while pending:
        name = pending.pop()
        if name in dead or is_stateful(view.op(name)):
            continue
        data = all(use.consumer in dead for _, use in view.node_uses(name))
        control = all(user in dead or (name, user) in released for user in view.control_uses(name))
        if data and control:
            dead.add(name)
            pending.extend(tensor.node for tensor in view.inputs(name))
    return dead
