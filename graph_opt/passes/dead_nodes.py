"""Nodes that a rewrite left without a reader."""

from __future__ import annotations

from typing import AbstractSet, Set

from graph_opt.graph.view import GraphView
from graph_opt.passes.movable import HANDLES, PLACEHOLDERS, VARIABLES

_KEPT = VARIABLES | HANDLES | PLACEHOLDERS


def dead_nodes(view: GraphView, replaced: AbstractSet[str]) -> Set[str]:
    """Nodes that no step needs any more.

    A replaced node is dead when all that read or wait for it is dead; a node that was not replaced
    when it has readers and all of them are. Others without a reader are results.

    Args:
      view: The rewritten graph.
      replaced: Nodes whose work other nodes do now.
    """
    dead: Set[str] = set()
    for name in reversed(view.topological_order() or []):
        followers = view.successors(name)
        if not followers and name not in replaced:
            continue
        if view.op(name) not in _KEPT and all(follower in dead for follower in followers):
            dead.add(name)
    return dead
