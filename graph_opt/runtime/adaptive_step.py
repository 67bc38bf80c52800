"""Chooses who runs a step that main waits for: the stage's own thread, or the session's threads.

A single thread runs a step's kernels one after the other. That keeps them out of main's way, but if
main is waiting anyway and cores are idle, a stage of many lookups finishes sooner on several
threads. Which is faster depends on the graph and the machine, so both are tried.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, List, Optional

_TRIED_STEPS = 16
# Shorter steps gain nothing from the session's threads.
_LEAST_SECONDS = 0.001
# It must be this much faster; otherwise the kernels stay in one thread.
_WORTH = 0.8

Step = Callable[..., Any]


class AdaptiveStep:
    """A step that runs in the calling thread, or on the session's threads if that is faster.

    Args:
      own: Runs the step's kernels in the calling thread.
      shared: Runs them on the session's threads.
      is_awaited: Whether anyone is waiting for the step that begins now.
    """

    def __init__(self, own: Step, shared: Step, is_awaited: Callable[[], bool]) -> None:
        self._own = own
        self._shared: Optional[Step] = shared
        self._is_awaited = is_awaited
        self._own_seconds: List[float] = []
        self._shared_seconds: List[float] = []
        self._decided = False

    def __call__(self) -> None:
        """Runs the step; called by one thread at a time."""
        if self._shared is None or not self._is_awaited():
            self._own()
        elif self._decided:
            self._shared()
        elif len(self._own_seconds) < _TRIED_STEPS:
            self._try(self._own, self._own_seconds)
        else:
            self._try(self._shared, self._shared_seconds)

    def _try(self, step: Step, seconds: List[float]) -> None:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
        if len(seconds) == _TRIED_STEPS:
            self._conclude()

    def _conclude(self) -> None:
        own = statistics.median(self._own_seconds)
        self._decided = bool(self._shared_seconds)
        slower = self._decided and statistics.median(self._shared_seconds) > _WORTH * own
        if own < _LEAST_SECONDS or slower:
            self._shared = None
