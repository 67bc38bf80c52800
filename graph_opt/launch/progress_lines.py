"""Shows how fast each task trains, below what a terminal shows or in a line now and then."""

from __future__ import annotations

import sys
import threading
import time
from typing import IO, Any, Callable, List, Mapping, Tuple

_TERMINAL_SECONDS = 1.0
_LOG_SECONDS = 10.0
_ERASE_LINE = "\x1b[2K"
_UP = "\x1b[1A"


class ProgressLines:
    """Prints steps and steps per second of each task, until it is closed.

    On a terminal they are the last lines, and are written anew each second; elsewhere there is one
    line for all tasks every ten seconds.

    Args:
      steps: For each task's name, what returns how many steps it has run.
      stream: Where they go; standard error.

    Example:
      >>> with ProgressLines({"chief": lambda: 100}) as progress:
      ...     progress.above(lambda: print("loss 0.5"))
    """

    def __init__(
        self, steps: Mapping[str, Callable[[], int]], stream: IO[str] = sys.stderr
    ) -> None:
        self._steps = steps
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._lock = threading.Lock()
        self._lines: List[str] = []  # on the terminal, below all others
        self._ended = threading.Event()
        self._before: List[Tuple[float, int]] = [(time.monotonic(), 0) for _ in steps]
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ProgressLines:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ended.set()
        self._thread.join()

    def above(self, print_line: Callable[[], Any]) -> None:
        """Prints something else, without tearing the lines."""
        with self._lock:
            self._erase()
            print_line()
            self._write("".join(self._lines))

    def _run(self) -> None:
        pause = _TERMINAL_SECONDS if self._is_terminal else _LOG_SECONDS
        while not self._ended.wait(pause):
            self.refresh()
        with self._lock:
            self._erase()
            self._lines = []

    def refresh(self) -> None:
        """Shows what has been reached since the last time."""
        with self._lock:
            self._show()

    def _show(self) -> None:
        rates = [self._rate_of(place, steps()) for place, steps in enumerate(self._steps.values())]
        texts = ["{} {}".format(name, rate) for name, rate in zip(self._steps, rates)]
        if self._is_terminal:
            self._erase()
            self._lines = [text + "\n" for text in texts]
            self._write("".join(self._lines))
        elif any(count for _, count in self._before):
            self._write("graph-opt cluster: {}\n".format(", ".join(texts)))

    def _rate_of(self, place: int, count: int) -> str:
        before, now = self._before[place], time.monotonic()
        self._before[place] = (now, count)
        return "{:.1f} steps/s ({:,})".format((count - before[1]) / (now - before[0]), count)

    def _erase(self) -> None:
        self._write((_UP + _ERASE_LINE) * len(self._lines))

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            self._ended.set()  # Nobody reads it.
