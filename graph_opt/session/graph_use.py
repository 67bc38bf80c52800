"""Which graphs one of our sessions has run, after which edits to them have no effect.

TensorFlow hands a graph to a session at the session's first run and silently ignores later edits to
existing nodes. So a graph can be optimized only before that run.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, MutableSet

from graph_opt.compat import tf

_graphs_that_ran: MutableSet[Any] = weakref.WeakSet()
_lock = threading.Lock()


def note_run(graph: Any) -> None:
    """Records, for as long as the graph lives, that a session has run it."""
    with _lock:
        _graphs_that_ran.add(graph)


def has_run(graph: Any) -> bool:
    """Whether one of graph_opt's sessions has run this graph."""
    with _lock:
        return graph in _graphs_that_ran


def refuse_if_run(graph: Any) -> None:
    """Raises if it is too late to edit the graph.

    Raises:
      tf.errors.FailedPreconditionError: One of graph_opt's sessions has already run the graph.
    """
    if has_run(graph):
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            "the graph cannot be optimized any more: a session has run it, and TensorFlow ignores "
            "edits made after that; call graph_opt.optimize_graph(graph, config) before the first "
            "run, or open the first session with the config that asks for async embedding",
        )
