"""Warnings given once per process: in TensorFlow's log, or on stderr if that is silenced."""

from __future__ import annotations

import threading
import weakref
from typing import Any, Dict, MutableMapping, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.reporting.stderr import say

_given: Dict[str, None] = {}
_about_all: Dict[str, None] = {}
_about: MutableMapping[Any, Dict[str, None]] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def warn_once(message: str, graph: Optional[Any] = None, in_reports: bool = True) -> None:
    """Logs the message with level WARNING unless this process has already logged it.

    Users who asked for something that has no effect are told, even if the log is silenced.

    Args:
      message: One sentence.
      graph: The `tf.Graph` that it concerns; None if it concerns the whole process.
      in_reports: Whether it also goes into the reports of the graphs that it concerns.
    """
    with _lock:
        if in_reports and graph is None:
            _about_all[message] = None
        elif in_reports:
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
    """The warnings that concern this graph, in order; those that concern all graphs last."""
    with _lock:
        return (*_about.get(graph, ()), *_about_all)


def forget_warnings() -> None:
    """Makes every message new again, for tests that look for one."""
    with _lock:
        _given.clear()
        _about.clear()
        _about_all.clear()
