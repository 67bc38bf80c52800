"""How many training steps this process has run, for whoever shows its progress."""

from __future__ import annotations

import threading

_lock = threading.Lock()
_steps = 0


def count_step() -> None:
    """Counts one more."""
    global _steps
    with _lock:
        _steps += 1


def steps_run() -> int:
    """How many there were."""
    return _steps
