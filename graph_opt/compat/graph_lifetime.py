"""What lives as long as a graph, though it refers to the graph.

A `WeakKeyDictionary` would keep such a graph alive: its values refer to its keys.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Optional, TypeVar

T = TypeVar("T")
_lock = threading.Lock()


def kept_with(graph: Any, name: str, make: Callable[[], T]) -> T:
    """What a graph has under a name, made when it is first asked for.

    Args:
      graph: A `tf.Graph`, finalized or not.
      name: Unique among the callers of this function.
      make: Makes it, such as `dict`.
    """
    kept: Optional[Dict[str, Any]] = getattr(graph, "_graph_opt_kept", None)
    if kept is None or name not in kept:
        with _lock:
            kept = getattr(graph, "_graph_opt_kept", None) or {}
            kept.setdefault(name, make())
            graph._graph_opt_kept = kept
    found: T = kept[name]
    return found
