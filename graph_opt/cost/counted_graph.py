"""A graph as a plan counts it: with the bodies of functions in place of their calls.

ids ─> StatefulPartitionedCall ─> x        ids ─> gather ─> sum ─> Identity ─> x
"""

from __future__ import annotations

from typing import AbstractSet, Any, FrozenSet, List, NamedTuple

from graph_opt.graph.called_bodies import CONDITIONALS, CalledBodies, largest_branch
from graph_opt.graph.inlined_calls import with_bodies
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.inspect.shapes import add_missing_shapes
from graph_opt.reporting.tables import first_of

_MOST_NODES = 300_000


class CountedGraph(NamedTuple):
    """A graph with the bodies of its calls.

    Attributes:
      view: The graph, with static shapes.
      bodies: What it had not before.
      choices: Calls that have one of their functions, as they run one.
    """

    view: GraphView
    bodies: CalledBodies
    choices: FrozenSet[str]

    def notes(self, names: AbstractSet[str]) -> List[str]:
        """What a plan assumes of those of these nodes that are in bodies, a line each."""
        called = [name for name in self.bodies.nodes if name in names]
        iterated = self.bodies.iterated.intersection(called)
        left_out = [name for name in self.bodies.left_out if name in names]
        lines = []
        if called:
            lines.append("{} nodes of functions are counted once for each call".format(len(called)))
        if iterated:
            lines.append(
                "{} of them are in loops: counted for one iteration, as nothing tells how many "
                "there are".format(len(iterated))
            )
        if self.choices.intersection(names):
            lines.append("of functions among which a conditional chooses, the largest is counted")
        if left_out:
            lines.append(
                "what {} does inside is not counted: a function calls itself, or they have more "
                "than {} nodes".format(first_of(left_out, 1), _MOST_NODES)
            )
        return lines


def counted_graph(graph_def: Any) -> CountedGraph:
    """The graph with the body of each function where it is called; of conditionals, the largest.

    Args:
      graph_def: A GraphDef with static shapes; not changed.

    Raises:
      tf.errors.InvalidArgumentError: It is not valid: duplicate names, missing inputs.
    """
    bodies = CalledBodies(graph_def, _MOST_NODES, largest_branch)
    if not bodies.nodes:
        return CountedGraph(view_of(graph_def), bodies, frozenset())
    nodes = (*graph_def.node, *bodies.nodes.values())
    choices = frozenset(node.name for node in nodes if node.op in CONDITIONALS)
    result = with_bodies(graph_def, bodies)
    add_missing_shapes(result)
    return CountedGraph(GraphView(result), bodies, choices.intersection(bodies.results))
