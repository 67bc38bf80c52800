"""A pipe through which a process tells the one that started it how many steps it has run."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Callable, Dict

VARIABLE = "GRAPH_OPT_STEPS"  # the pipe's file descriptor, in the process that writes
_WRITE_SECONDS = 0.5
_CHUNK = 1 << 12


class StepsPipe:
    """The reading end.

    Attributes:
      environment: What the process that writes finds the pipe by.
      inherited: The file descriptor that must stay open in it.
    """

    def __init__(self) -> None:
        self._reader, self.inherited = os.pipe()
        self.environment: Dict[str, str] = {VARIABLE: str(self.inherited)}
        self._before = 0  # of processes that were started again
        self._last = 0
        threading.Thread(target=self._read, daemon=True).start()

    def count(self) -> int:
        """How many steps were run, as last told."""
        return self._before + self._last

    def _read(self) -> None:
        begun = b""
        while True:
            chunk = os.read(self._reader, _CHUNK)
            *numbers, begun = (begun + chunk).split(b"\n")
            for number in map(int, numbers):
                if number < self._last:
                    self._before += self._last
                self._last = number


def tell_steps(steps: Callable[[], int]) -> None:
    """Writes a number to the pipe again and again, if this process was given one.

    Args:
      steps: Returns the number of steps that were run.
    """
    given = os.environ.pop(VARIABLE, None)
    if given is not None:
        threading.Thread(target=_write, args=(int(given), steps), daemon=True).start()


def _write(pipe: int, steps: Callable[[], int]) -> None:
    pause = threading.Event()
    with contextlib.suppress(OSError):  # Nobody reads any more.
        while True:
            os.write(pipe, b"%d\n" % steps())
            pause.wait(_WRITE_SECONDS)
