"""Nodes that are no longer needed because other nodes do their work."""

from __future__ import annotations

from typing import AbstractSet, Set

from graph_opt.compat.stateful_ops import HANDLES, PLACEHOLDERS, VARIABLES
from graph_opt.graph.view import GraphView
from graph_opt.rules.op_names import GROUP_LOOKUPS

_KEPT = VARIABLES | HANDLES | PLACEHOLDERS
# Attribute of group lookups that a column scope replaced by larger ones while the model was built.
_SUPERSEDED = "_superseded_by_graph_opt"


def superseded_lookups(view: GraphView) -> Set[str]:
    """Group lookups that others replaced while the model was built, and all that only they need.

    Lookups that something still reads are not included.
    """
    marked = {
        name
        for name in view.of_op(*sorted(GROUP_LOOKUPS))
        if view.attribute(name, _SUPERSEDED) is not None
    }
    return dead_nodes(view, marked) if marked else set()


def dead_nodes(view: GraphView, replaced: AbstractSet[str]) -> Set[str]:
    """Nodes that no step needs any more.

    A replaced node is dead if everything that reads it or waits for it is dead. Any other node is
    dead if it has readers and all of them are dead; without readers it is a result.

    Args:
      view: The rewritten graph.
      replaced: Nodes whose work other nodes do.
    """
    dead: Set[str] = set()
    needed_by = {name: len(view.successors(name)) for name in replaced}
    waiting = [name for name, followers in needed_by.items() if not followers]
    while waiting:
        name = waiting.pop()
        if view.op(name) in _KEPT:
            continue
        dead.add(name)
        for source in view.predecessors(name):
            if source not in needed_by:
                needed_by[source] = len(view.successors(source))
            needed_by[source] -= 1
            if not needed_by[source]:
                waiting.append(source)
    return dead
