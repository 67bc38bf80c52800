"""The bodies of functions on a page: scopes of the nodes that call them."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence

from graph_opt.report_page.changes import REWIRED
from graph_opt.report_page.graph_columns import MOST_NODES, PageGraph
from graph_opt.rules.called_bodies import CalledBodies

_MOST_CALLED = 100_000


class CalledNodes(NamedTuple):
    """What a page shows of called functions.

    Attributes:
      graphs: The page's graphs with the nodes of bodies.
      bodies: What is called in each of them.
    """

    graphs: List[PageGraph]
    bodies: List[CalledBodies]

    def returned(self) -> Dict[str, List[str]]:
        """For each call the nodes that its results come from, and those that it waits for."""
        found: Dict[str, List[str]] = {}
        for bodies in self.bodies:
            for call, results in bodies.results.items():
                nodes = [text.partition(":")[0] for text in results]
                found[call] = list(dict.fromkeys([*nodes, *bodies.others[call]]))
        return found

    def counts(self) -> Dict[str, int]:
        """How many nodes of bodies there are, how many run in loops, and calls without bodies."""
        last = self.bodies[-1]
        return {
            "nodes": len(last.nodes),
            "calls": len(last.results),
            "iterated": len(last.iterated),
            "left_out": len(last.left_out),
        }


def with_called_nodes(graphs: Sequence[PageGraph], graph_defs: Sequence[Any]) -> CalledNodes:
    """Adds the nodes of bodies to the graphs of a page, in the regions of what calls them.

    Args:
      graphs: The graphs of a page.
      graph_defs: The same as GraphDefs.
    """
    found = CalledNodes([], [])
    for graph, graph_def in zip(graphs, graph_defs):
        most = min(_MOST_CALLED, MOST_NODES - len(graph.nodes))
        bodies = CalledBodies(graph_def, most)
        found.bodies.append(bodies)
        found.graphs.append(_with_bodies(graph, bodies) if bodies.nodes else graph)
    return found


def _with_bodies(graph: PageGraph, bodies: CalledBodies) -> PageGraph:
    regions, changes = dict(graph.regions), dict(graph.changes)
    for name, caller in bodies.callers.items():
        regions[name] = regions.get(caller, "none")
        change = changes.get(caller, REWIRED)
        if change != REWIRED:
            changes[name] = change
    return PageGraph(graph.label, {**graph.nodes, **bodies.nodes}, regions, changes)
