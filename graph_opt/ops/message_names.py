"""Names of messages between ranks: under its name a message meets those of the other ranks."""

from __future__ import annotations

import weakref
from typing import Any, MutableMapping, Optional, Set

from graph_opt.compat import tf
from graph_opt.compat.outer_graphs import outermost_graph

ALL_TO_ALL = "ExchangeAllToAll"
"""The op that sends messages."""
IDS_SUFFIX = "_ids"
"""What the name of the message with an exchange's requests ends with."""
ROWS_SUFFIX = "_rows"
"""What that of the message with rows ends with."""
CHANGED_SUFFIX = "_changed"
"""What that of the message with rows that have changed since ends with."""
GRADIENT_SUFFIX = "_gradients"
"""What follows the name of a message in that of the message with its gradient."""


class _Names:
    """The names that messages of a graph have."""

    def __init__(self, graph: Any) -> None:
        # Nodes that were imported; the scope that they are in does not tell messages apart.
        self._imported = {
            sent_name(node) or node.name.rsplit("/", 1)[-1] for node in graph.get_operations()
        }
        self._given: Set[str] = set()

    def new(self, base: str) -> str:
        name, number = base, 0
        while not self._is_free(name):
            number += 1
            name = "{}_{}".format(base, number)
        self._given.add(name)
        return name

    def _is_free(self, name: str) -> bool:
        if name in self._given or name in self._imported:
            return False
        return not any(one.startswith(name + "_") for one in self._imported)


def sent_name(operation: Any) -> Optional[str]:
    """The name of the message that a node of ours sends; None for other nodes."""
    if operation.type != ALL_TO_ALL:
        return None
    return str(tf.compat.as_str(operation.get_attr("message")))


_names: MutableMapping[Any, _Names] = weakref.WeakKeyDictionary()


def message_name(base: str) -> str:
    """A name for a message, or for several that start with it.

    It is the same on all ranks that build the same graph, and unlike every other name from here in
    that graph and the functions in it: a step may send all of them at once. Eager messages follow
    one another, so that they need no numbers.

    Args:
      base: What the message is about, such as `graph_opt_exchange`.

    Example:
      >>> with tf.Graph().as_default():
      ...     message_name("graph_opt_exchange"), message_name("graph_opt_exchange")
      ('graph_opt_exchange', 'graph_opt_exchange_1')
    """
    graph = outermost_graph()
    if graph is None:
        return base
    if graph not in _names:
        _names[graph] = _Names(graph)
    return _names[graph].new(base)
