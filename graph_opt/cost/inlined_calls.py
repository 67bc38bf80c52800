"""A graph in which the bodies of functions stand where they are called, so that a plan counts them.

ids ─> StatefulPartitionedCall ─> x        ids ─> gather ─> sum ─> IdentityN ─> x
"""

from __future__ import annotations

from typing import AbstractSet, Any, FrozenSet, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import output_dtypes
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.inspect.shapes import ATTRIBUTE, add_missing_shapes
from graph_opt.reporting.tables import first_of
from graph_opt.rules.called_bodies import CONDITIONALS, CalledBodies

# The result of a call, each output of which is the input in its place.
RETURNED = "IdentityN"

_MOST_NODES = 300_000


class InlinedView(NamedTuple):
    """A graph with the bodies of its calls.

    Attributes:
      view: The graph, with static shapes.
      bodies: Names of the nodes that it had not before.
      iterated: Those of them that run for each iteration of a loop.
      choices: Calls that have one of their functions, as they run one.
      left_out: Calls that are as they were.
    """

    view: GraphView
    bodies: FrozenSet[str] = frozenset()
    iterated: FrozenSet[str] = frozenset()
    choices: FrozenSet[str] = frozenset()
    left_out: Tuple[str, ...] = ()

    def notes(self, names: AbstractSet[str]) -> List[str]:
        """What a plan assumes of those of these nodes that are in bodies, a line each."""
        called = self.bodies.intersection(names)
        iterated = self.iterated.intersection(called)
        left_out = [name for name in self.left_out if name in names]
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


def inlined(graph_def: Any) -> InlinedView:
    """The graph with the body of each function where it is called; of conditionals, the largest.

    Args:
      graph_def: A GraphDef with static shapes; not changed.

    Raises:
      tf.errors.InvalidArgumentError: It is not valid: duplicate names, missing inputs.
    """
    bodies = CalledBodies(graph_def, _MOST_NODES, one_branch=True)
    if not bodies.nodes:
        return InlinedView(view_of(graph_def), left_out=tuple(bodies.left_out))
    choices = [
        node for node in (*graph_def.node, *bodies.nodes.values()) if node.op in CONDITIONALS
    ]
    result = tf.GraphDef()
    result.versions.CopyFrom(graph_def.versions)
    result.library.CopyFrom(graph_def.library)
    for node in (*graph_def.node, *bodies.nodes.values()):
        copy = result.node.add()
        copy.CopyFrom(node)
        if node.name in bodies.results:
            _return(copy, bodies.results[node.name], bodies.others[node.name])
    add_missing_shapes(result)
    return InlinedView(
        GraphView(result),
        frozenset(bodies.nodes),
        frozenset(bodies.iterated),
        frozenset(node.name for node in choices if node.name in bodies.results),
        tuple(bodies.left_out),
    )


def _return(call: Any, results: List[str], others: List[str]) -> None:
    """Makes a call the place where its results come together."""
    waits = [*(text for text in call.input if text.startswith("^")), *("^" + one for one in others)]
    dtypes = _dtypes(call)
    if dtypes is None or len(dtypes) != len(results):
        call.input.extend(dict.fromkeys([*waits, *("^" + _node(text) for text in results)]))
        return
    shapes = tf.AttrValue()
    if ATTRIBUTE in call.attr:
        shapes.CopyFrom(call.attr[ATTRIBUTE])
    call.ClearField("attr")
    call.op = RETURNED if results else "NoOp"
    call.input[:] = [*results, *dict.fromkeys(waits)]
    if results:
        call.attr["T"].list.type.extend(dtypes)
        call.attr[ATTRIBUTE].CopyFrom(shapes)


def _node(text: str) -> str:
    return text.partition(":")[0]


def _dtypes(call: Any) -> Optional[List[int]]:
    if "Tout" in call.attr:
        return list(call.attr["Tout"].list.type)
    return output_dtypes(call)
