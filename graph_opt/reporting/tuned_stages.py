"""What was chosen for stages whose threads and capacity are tuned while they run."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, MutableMapping, Tuple

from graph_opt.reporting.stderr import say

_latest: MutableMapping[Any, Dict[str, str]] = weakref.WeakKeyDictionary()
_said: Dict[str, None] = {}
_lock = threading.Lock()


def note_tuned(graph: Any, stage: str, told: str) -> None:
    """Records what is chosen for a stage at present.

    Args:
      graph: Its `tf.Graph`.
      stage: Its name.
      told: What was chosen and why, in one line.
    """
    with _lock:
        _latest.setdefault(graph, {})[stage] = told


def say_tuned(told: str) -> None:
    """Writes the line to stderr, and keeps it for the report of the process."""
    with _lock:
        _said[told] = None
    say(told)


def tuned_stages(graph: Any) -> Tuple[str, ...]:
    """A line for each tuned stage of a graph."""
    with _lock:
        return tuple(_latest.get(graph, {}).values())


def tunings_said() -> Tuple[str, ...]:
    """All lines of this process, in order."""
    with _lock:
        return tuple(_said)
