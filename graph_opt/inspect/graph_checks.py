"""What a graph from a file must not have, since reading it further would have no end or fail."""

from __future__ import annotations

from typing import Any, Dict, List, Set

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import input_dtypes
from graph_opt.graph.elided_values import is_elided
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView

# A constant may have fewer values than its shape says: the last one is repeated.
_MOST_REPEATED = 1 << 29
_MOST_SHOWN = 6


def check_graph(graph_def: Any) -> None:
    """Refuses graphs whose inspection would not end, fail, or take any amount of memory.

    Raises:
      tf.errors.InvalidArgumentError: Two nodes have one name, an input is missing, nodes depend on
        each other, a node has fewer inputs than its op, or a constant claims to have more values
        than a file can hold.

    Example:
      >>> check_graph(graph_def)
      InvalidArgumentError: nodes read each other in a circle: 'a', 'b'
    """
    for node in graph_def.node:
        if node.op == "Const" and not is_elided(node):
            _check_constant(node)
    view = view_of(graph_def)
    for name in view.nodes:
        _check_inputs(view, name)
    if view.topological_order() is None:
        raise _invalid(
            "nodes read each other in a circle: {}; no loop of TensorFlow does, so the file was "
            "not written by it".format(", ".join(map(repr, _circle(view))))
        )


def _check_constant(node: Any) -> None:
    tensor = node.attr["value"].tensor
    values = 1
    for length in tensor.tensor_shape.dim:
        values *= max(length.size, 0)
    if values > max(_MOST_REPEATED, 8 * tensor.ByteSize()):
        raise _invalid(
            "constant '{}' claims to have {} values, but holds only {} bytes: rebuild the graph "
            "without it".format(node.name, values, tensor.ByteSize())
        )


def _check_inputs(view: GraphView, name: str) -> None:
    node = view.nodes[name]
    taken = input_dtypes(node) or ()
    if len(view.inputs(name)) < len(taken):
        raise _invalid(
            "node '{}' has {} of the {} inputs of {}: TensorFlow could not run it, so write the "
            "file again from the graph".format(name, len(view.inputs(name)), len(taken), node.op)
        )


def _circle(view: GraphView) -> List[str]:
    """Some nodes of a circle, or all of a short one."""
    left: Set[str] = set(view.nodes)
    ready = [name for name in view.nodes if not view.predecessors(name)]
    waits_for = {name: len(set(view.predecessors(name))) for name in view.nodes}
    while ready:
        name = ready.pop()
        left.discard(name)
        for user in set(view.successors(name)):
            waits_for[user] -= 1
            if not waits_for[user]:
                ready.append(user)
    # Each node that is left has a predecessor that is: whoever walks backward comes round.
    places: Dict[str, int] = {}
    name = min(left)
    while name not in places:
        places[name] = len(places)
        name = next(one for one in view.predecessors(name) if one in left)
    circle = list(places)[places[name] :]
    return circle if len(circle) <= _MOST_SHOWN else [*circle[: _MOST_SHOWN - 1], "..."]


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
