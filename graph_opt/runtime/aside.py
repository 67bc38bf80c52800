"""Work of a stage that its batches need not wait for, such as compiling what will end it.

Compiling a step takes as long as it would take main's: a quarter of a second in a large graph. In
the stage's own thread, main would be without batches for so long.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any, Callable, List

from graph_opt.ops.late_threads import start_thread

Work = Callable[[], Any]


class Aside:
    """Does work of one stage in threads of their own.

    Args:
      name: Name of the threads.

    Example:
      >>> compiled = Aside("graph_opt/staged/aside").begin(compile_step)
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

    def begin(self, work: Work) -> Future[Any]:
        """Calls a function in a new thread; the future gets what it returns or raises.

        The thread has the priority of the calling one. A lower one would get no core on a busy
        machine, and hold locks that main waits for: those of TensorFlow's compilation, and those
        that ending a stage takes.
        """
        future: Future[Any] = Future()
        self._threads.append(start_thread(_do, (work, future), self._name))
        return future


def _do(work: Work, future: Future[Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # It is whoever asks for the result that is told.
        future.set_exception(error)
