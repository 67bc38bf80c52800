"""Warnings said once in a process: in TensorFlow's log, or on stderr where that is silenced."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, MutableMapping, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say

_given: Dict[str, None] = {}
_about: MutableMapping[Any, Dict[str, None]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def warn_once(message: str, graph: Optional[Any] = None) -> None:
    """Logs the message with level WARNING unless this process logged it before.

    A user who asked for what has no effect is told, even if the script has silenced the log.

    Args:
      message: One sentence.
      graph: The `tf.Graph` that it concerns, whose report will have it.
    """
    with _lock:
        if graph is not None:
            _about.setdefault(graph, {})[message] = None
        if message in _given:
            return
        _given[message] = None
    if tf.logging.get_verbosity() > tf.logging.WARN:
        say(message)
    else:
        tf.logging.warning("graph_opt: %s", message)


def warnings_given() -> Tuple[str, ...]:
    """All warnings of this process, in order."""
    with _lock:
        return tuple(_given)


def warnings_about(graph: Any) -> Tuple[str, ...]:
    """The warnings that concern this graph, in order."""
    with _lock:
        return tuple(_about.get(graph, ()))


def forget_warnings() -> None:
    """Makes every message new again, for tests that look for one."""
    with _lock:
        _given.clear()
        _about.clear()
