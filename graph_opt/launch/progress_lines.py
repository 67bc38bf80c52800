"""Shows how fast each task trains, below what a terminal shows or in a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from typing import IO, Any, Callable, List, Mapping, Optional, Tuple

from graph_opt.launch.bottom_lines import BottomLines

_TERMINAL_SECONDS = 1.0
_LOG_SECONDS = 10.0


class ProgressLines:
    """Prints steps and steps per second of each task, until it is closed.

    On a terminal they are the last lines, and are written anew each second; elsewhere there is one
    line for all tasks every ten seconds.

    Args:
      steps: For each task's name, what returns how many steps it has run.
      stream: Where they go; standard error by default.

    Attributes:
      bottom: What others print their lines with, so that these stay whole.

    Example:
      >>> with ProgressLines({"chief": lambda: 100}) as progress:
      ...     progress.bottom.above(lambda: print("loss 0.5"))
    """

    def __init__(
        self, steps: Mapping[str, Callable[[], int]], stream: Optional[IO[str]] = None
    ) -> None:
        self._steps = steps
        self._stream = sys.stderr if stream is None else stream
        self.bottom = BottomLines(self._stream)
        self._ended = threading.Event()
        self._before: List[Tuple[float, int]] = [(time.monotonic(), 0) for _ in steps]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        pause = _TERMINAL_SECONDS if self.bottom.is_terminal else _LOG_SECONDS
        while not self._ended.wait(pause):
            self.refresh()
        self.bottom.show_lines(())

    def refresh(self) -> None:
        """Shows what has been reached since the last time."""
        rates = [self._rate_of(place, steps()) for place, steps in enumerate(self._steps.values())]
        texts = ["{} {}".format(name, rate) for name, rate in zip(self._steps, rates)]
        if self.bottom.is_terminal:
            self.bottom.show_lines(texts)
        elif any(count for _, count in self._before):
            line = "graph-opt cluster: {}\n".format(", ".join(texts))
            self.bottom.above(lambda: self._log(line))

    def _rate_of(self, place: int, count: int) -> str:
        before, now = self._before[place], time.monotonic()
        self._before[place] = (now, count)
        return "{:.1f} steps/s ({:,})".format((count - before[1]) / (now - before[0]), count)

    def _log(self, line: str) -> None:
        try:
            self._stream.write(line)
            self._stream.flush()
        except OSError:
            self._ended.set()  # Nobody reads it.
