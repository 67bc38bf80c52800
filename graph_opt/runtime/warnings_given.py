"""Warnings said once in a process, in TensorFlow's log."""

from __future__ import annotations

import threading
from typing import Set

from graph_opt.compat import tf

_given: Set[str] = set()
_lock = threading.Lock()


def warn_once(message: str) -> None:
    """Logs the message with level WARNING unless this process logged it before."""
    with _lock:
        if message in _given:
            return
        _given.add(message)
    tf.logging.warning("graph_opt: %s", message)


def forget_warnings() -> None:
    """Makes every message new again, for tests that look for one."""
    with _lock:
        _given.clear()
