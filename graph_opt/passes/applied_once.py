"""Passes are applied once, to the graph as the model built it."""

from __future__ import annotations

from typing import Iterable, Iterator

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView

_ONCE = " applied once, to the graph as the model built it"


def refuse_again(left: Iterable[str], text: str) -> None:
    """Refuses a graph that contains what a pass leaves.

    Args:
      left: Nodes that only the pass makes.
      text: The beginning of the message, to be formatted with the name of a node; it ends with
        what is applied once, and "is" or "are".

    Raises:
      FailedPreconditionError: There is such a node.
    """
    for name in left:
        raise tf.errors.FailedPreconditionError(None, None, text.format(name) + _ONCE)


def marked(view: GraphView, mark: str, *ops: str) -> Iterator[str]:
    """Nodes of these ops that have an attribute."""
    return (name for name in view.of_op(*ops) if view.attribute(name, mark) is not None)
