"""Work of a stage that its batches need not wait for, such as compiling another form of its step.

Compiling a step takes as long as it would take main's: a quarter of a second in a large graph. In
the stage's own thread, main would be without batches for so long.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable, List

from graph_opt.ops.late_threads import start_thread
from graph_opt.runtime import thread_priority

Work = Callable[[], Any]


class Aside:
    """Does work of one stage in threads of their own.

    Args:
      name: Name of the threads.

    Example:
      >>> compiled = Aside("graph_opt/staged/aside").begin(compile_step, priority=5)
      >>> compiled.done() and compiled.result()
      False
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: List[threading.Thread] = []

    @property
    def threads(self) -> List[threading.Thread]:
        """The threads that it has needed so far."""
        return list(self._threads)

    def begin(self, work: Work, priority: int = 0) -> Future[Any]:
        """Calls a function in a new thread.

        Args:
          work: The function.
          priority: An argument of `thread_priority.lower`, for work that is to take no core from
            main; 0 for the priority of the calling thread.

        Returns:
          A future that gets what the function returns or raises.
        """
        future: Future[Any] = Future()
        self._threads.append(start_thread(_do, (work, priority, future), self._name))
        return future


def _do(work: Work, priority: int, future: Future[Any]) -> None:
    if priority > 0:
        thread_priority.lower(priority)  # If that is refused, the stage's workers say so.
    try:
        future.set_result(work())
    except BaseException as error:  # It is whoever asks for the result that is told.
        future.set_exception(error)
