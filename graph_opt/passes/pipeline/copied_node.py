"""Copies nodes of main for a stage."""

from __future__ import annotations

from typing import Any, Iterable, Sequence

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules.op_names import VARIABLES

_CLASS = "_class"
_COLOCATED = b"loc:@"


def copied_node(
    view: GraphView, name: str, new_name: str, inputs: Sequence[str], waits: Iterable[str]
) -> Any:
    """The NodeDef of a copy, which stays colocated with variables alone.

    Args:
      view: The graph.
      name: The node.
      new_name: That of the copy.
      inputs: Its data inputs, as NodeDefs spell them.
      waits: The nodes that it waits for.
    """
    node = tf.NodeDef()
    node.CopyFrom(view.nodes[name])
    node.name = new_name
    del node.input[:]
    node.input.extend([*inputs, *("^" + each for each in waits)])
    if _CLASS in node.attr:
        groups = node.attr[_CLASS].list.s
        groups[:] = [each for each in groups if _is_variable(view, each)]
    return node


def _is_variable(view: GraphView, group: bytes) -> bool:
    """Whether a colocation is with a variable, which is no node of the stage."""
    name = group[len(_COLOCATED) :].decode("utf-8")
    return name in view and view.op(name) in VARIABLES
