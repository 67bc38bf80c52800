"""The bodies of functions on a page: scopes of the nodes that call them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from graph_opt.graph.called_bodies import CalledBodies
from graph_opt.report_page.changes import REWIRED
from graph_opt.report_page.graph_columns import MOST_NODES, PageGraph
from graph_opt.rules.lookups.functions import PASSES_ROWS_ON
from graph_opt.rules.op_names import ROW_READERS

_MOST_CALLED = 100_000
_LONGEST_READ = 64


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


def row_readers(bodies: CalledBodies, graph: Mapping[str, Any]) -> Dict[Tuple[str, str], List[str]]:
    """The nodes of bodies that read rows, by the node of the graph that calls them and table.

    Args:
      bodies: The bodies of the graph's calls.
      graph: The graph's own NodeDefs by name.
    """
    nodes = {**graph, **bodies.nodes}
    found: Dict[Tuple[str, str], List[str]] = {}
    for name, caller in bodies.callers.items():
        node = nodes[name]
        if node.op in ROW_READERS and node.input:
            found.setdefault((caller, _table_behind(node.input[0], nodes)), []).append(name)
    return found


def _table_behind(text: str, nodes: Mapping[str, Any]) -> str:
    """The node that a tensor comes from, behind what merely passes it on."""
    for _ in range(_LONGEST_READ):
        name = text.partition(":")[0]
        node = nodes.get(name)
        if node is None or node.op not in PASSES_ROWS_ON or not node.input:
            return name
        text = node.input[0]
    return ""
