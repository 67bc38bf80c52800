"""Chooses who runs a step that main waits for: the stage's own thread, or the session's threads.

A single thread runs a step's kernels one after the other. That keeps them out of main's way, but if
main is waiting anyway and cores are idle, a stage of many lookups finishes sooner on several
threads. Which is faster depends on the graph and the machine, so both are tried. While the second
form is compiled, elsewhere, steps go on in the first.
"""

from __future__ import annotations

import statistics
import time
from concurrent.futures import Future
from typing import Any, Callable, List, Optional

from graph_opt.compat import tf

_TRIED_STEPS = 16
# For shorter steps, neither the session's threads nor another compilation is worth it.
_LEAST_SECONDS = 0.001
# It must be this much faster; otherwise the kernels stay in one thread.
_WORTH = 0.8

Step = Callable[..., Any]


class AdaptiveStep:
    """A step that runs in the calling thread, or on the session's threads if that is faster.

    Args:
      own: Runs the step's kernels in the calling thread.
      compile_shared: Begins to make the step that runs them on the session's threads.
      is_awaited: Whether anyone is waiting for the step that begins now.
    """

    def __init__(
        self,
        own: Step,
        compile_shared: Callable[[], Future[Step]],
        is_awaited: Callable[[], bool],
    ) -> None:
        self._own = own
        self._compile_shared = compile_shared
        self._is_awaited = is_awaited
        self._compiling: Optional[Future[Step]] = None
        self._shared: Optional[Step] = None
        self._own_seconds: List[float] = []
        self._shared_seconds: List[float] = []
        self._decided = False

    def __call__(self) -> None:
        """Runs the step; called by one thread at a time."""
        if self._decided and self._shared is None:
            self._own()
        elif not self._is_awaited():
            self._own()
        elif self._decided and self._shared is not None:
            self._shared()
        elif self._compiling is None:
            self._try(self._own, self._own_seconds)
        elif self._shared is not None:
            self._try(self._shared, self._shared_seconds)
        else:
            self._own()
            if self._compiling.done():
                self._take_compiled(self._compiling)

    def _try(self, step: Step, seconds: List[float]) -> None:
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
        if len(seconds) == _TRIED_STEPS:
            self._conclude()

    def _conclude(self) -> None:
        own = statistics.median(self._own_seconds)
        if self._shared is None and own >= _LEAST_SECONDS:
            self._compiling = self._compile_shared()
            return
        self._decided = True
        if self._shared is None or statistics.median(self._shared_seconds) > _WORTH * own:
            self._shared = None

    def _take_compiled(self, compiled: Future[Step]) -> None:
        try:
            self._shared = compiled.result()
        except tf.errors.OpError:  # The session is ending.
            self._decided = True
