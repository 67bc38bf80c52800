"""Which nodes may be merged without closing a cycle."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, List, Sequence, Set

from graph_opt.graph.view import GraphView


def merge_depths(view: GraphView, order: Sequence[str], merged: AbstractSet[str]) -> Dict[str, int]:
    """For each of `merged`, how many of them are on the longest path that ends with it.

    Nodes of the same depth do not depend on each other, so they may be merged.

    Args:
      view: The graph.
      order: All nodes, each after its inputs.
      merged: The nodes in question.
    """
    places = [place for place, name in enumerate(order) if name in merged]
    depths: Dict[str, int] = {}
    for name in order[places[0] : places[-1] + 1] if places else ():
        above = [depths[source] for source in view.predecessors(name) if source in depths]
        depth = max(above, default=0) + (name in merged)
        if depth:
            depths[name] = depth
    return {name: depths[name] for name in merged if name in depths}


def waiting_for(view: GraphView, end: str) -> FrozenSet[str]:
    """What ultimately waits for a node through control edges; the node itself if nothing does.

    NoOp nodes that merely forward the wait (`tf.group` across devices) are followed. Updates with
    the same result run in the same steps.
    """
    found: Set[str] = set()
    seen: Set[str] = {end}
    pending: List[str] = [end]
    while pending:
        name = pending.pop()
        waiting = view.control_uses(name)
        if not waiting:
            found.add(name)
        for user in waiting:
            if user in seen:
                continue
            seen.add(user)
            if view.op(user) == "NoOp":
                pending.append(user)
            else:
                found.add(user)
    return frozenset(found)
