"""What a legal graph is, stated once and checked after every pass."""

from __future__ import annotations

from typing import List

import networkx

from graph_opt.graph.view import GraphView


class GraphError(Exception):
    """A rewritten graph is not legal: a defect of a pass, never of the user's graph."""


def verify(view: GraphView) -> None:
    """Checks that the graph has no cycle (names and inputs were checked by `GraphView`).

    Raises:
      GraphError: with the neighbourhood of the fault.
    """
    if view.topological_order() is not None:
        return
    cycle = [source for source, _ in networkx.find_cycle(view.digraph())]
    raise GraphError(
        "the graph has a cycle: {}\n{}".format(
            " -> ".join(cycle[:12] + cycle[:1]), around(view, cycle[0])
        )
    )


def around(view: GraphView, name: str, hops: int = 2) -> str:
    """The nodes within `hops` edges of a node, as text, for error messages."""
    near = networkx.ego_graph(view.digraph().to_undirected(as_view=True), name, radius=hops)
    lines: List[str] = []
    for node in sorted(near)[:40]:
        inputs = [str(tensor) for tensor in view.inputs(node)]
        inputs += ["^" + source for source in view.controls(node)]
        mark = ">" if node == name else " "
        lines.append("{} {} = {}({})".format(mark, node, view.op(node), ", ".join(inputs)))
    return "\n".join(lines)
