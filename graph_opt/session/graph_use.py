"""Which graphs a session of ours has run: from then on edits to them have no effect.

TensorFlow hands a graph to a session at the session's first run; later edits of existing nodes
are ignored without an error. So a graph can be optimized only before.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, MutableSet

from graph_opt.compat import tf

_graphs_that_ran: MutableSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def note_run(graph: Any) -> None:
    """Remembers, for as long as the graph lives, that a session ran it."""
    with _lock:
        _graphs_that_ran.add(graph)


def has_run(graph: Any) -> bool:
    """Whether a session of graph_opt's ran this graph."""
    with _lock:
        return graph in _graphs_that_ran


def refuse_if_run(graph: Any) -> None:
    """Raises where it is too late to edit the graph.

    Raises:
      tf.errors.FailedPreconditionError: a session of graph_opt's ran the graph already.
    """
    if has_run(graph):
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "the graph cannot be optimized any more: a session has run it, and TensorFlow ignores "
            "edits made after that; call graph_opt.optimize_graph(graph, config) before the first "
            "run, or open the first session with the config that asks for async embedding",
        )
