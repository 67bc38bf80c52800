"""What makes a graph legal; checked after every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, FrozenSet, List, Sequence, Tuple

from graph_opt.graph.view import GraphView

if TYPE_CHECKING:
    import networkx


class GraphError(Exception):
    """A rewritten graph is not legal: a bug in a pass, never a fault of the user's graph."""


class CycleError(GraphError):
    """A rewritten graph has cycles.

    Attributes:
      cycles: Strongly connected components: sets of nodes that all depend on each other.
    """

    def __init__(self, message: str, cycles: Sequence[FrozenSet[str]]) -> None:
        super().__init__(message)
        self.cycles: Tuple[FrozenSet[str], ...] = tuple(cycles)


def verify(view: GraphView) -> None:
    """Checks that the graph has no cycle (names and inputs were checked by `GraphView`).

    Raises:
      CycleError: There is one; the message shows its neighbourhood.
    """
    if view.topological_order() is not None:
        return
    import networkx  # as in _digraph

    digraph = _digraph(view)
    cycle = [source for source, _ in networkx.find_cycle(digraph)]
    raise CycleError(
        "the graph has a cycle: {}\n{}".format(
            " -> ".join(cycle[:12] + cycle[:1]), around(view, cycle[0])
        ),
        [
            frozenset(nodes)
            for nodes in networkx.strongly_connected_components(digraph)
            if len(nodes) > 1 or digraph.has_edge(*(2 * list(nodes)))
        ],
    )


def around(view: GraphView, name: str, hops: int = 2) -> str:
    """The nodes within `hops` edges of a node, as text for error messages."""
    import networkx  # as in _digraph

    near = networkx.ego_graph(_digraph(view).to_undirected(as_view=True), name, radius=hops)
    lines: List[str] = []
    for node in sorted(near)[:40]:
        inputs = [str(tensor) for tensor in view.inputs(node)]
        inputs += ["^" + source for source in view.controls(node)]
        mark = ">" if node == name else " "
        lines.append("{} {} = {}({})".format(mark, node, view.op(node), ", ".join(inputs)))
    return "\n".join(lines)


def _digraph(view: GraphView) -> networkx.DiGraph:
    """All edges except loops' back edges."""
    import networkx  # takes 0.2 s to import, and most sessions never need it

    digraph = networkx.DiGraph()
    digraph.add_nodes_from(view.nodes)
    for name in view.nodes:
        digraph.add_edges_from((source, name) for source in view.predecessors(name))
    return digraph
