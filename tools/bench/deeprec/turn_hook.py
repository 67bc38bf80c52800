"""Lets a script's training take turns with others.

    input    "turn 10 100"      10 steps, then 100 that are timed
    output   "turn 0.52 0.98"   wall and CPU seconds of those 100
    input    "end"              all steps that are left

`training.py` holds the other end. Between turns a step waits for the next line.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import tensorflow.compat.v1 as tf

WORD = "turn"
END = "end"


class TurnHook(tf.train.SessionRunHook):
    """A hook for the session that trains, and for no other.

    Raises:
      EOFError: The input has ended, so whoever measured is gone.
    """

    def __init__(self) -> None:
        self._before = 0
        self._timed = 0
        self._ended = False
        self._seconds = 0.0
        self._cpu_seconds = 0.0

    def before_run(self, run_context: Any) -> None:
        """Waits for a turn, unless there is one."""
        if not (self._before or self._timed or self._ended):
            self._begin(sys.stdin.readline())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Counts the step; at the end of a turn, tells how long it took."""
        if self._ended:
            return
        if self._before:
            self._before -= 1
            if not self._before:
                self._start_clock()
            return
        self._timed -= 1
        if not self._timed:
            seconds = time.perf_counter() - self._seconds
            cpu_seconds = time.process_time() - self._cpu_seconds
            print(WORD, seconds, cpu_seconds, flush=True)

    def _begin(self, line: str) -> None:
        if not line:
            raise EOFError("nobody measures this training any more")
        if line.strip() == END:
            self._ended = True
            return
        _, before, timed = line.split()
        self._before, self._timed = int(before), int(timed)
        if not self._before:
            self._start_clock()

    def _start_clock(self) -> None:
        self._seconds = time.perf_counter()
        self._cpu_seconds = time.process_time()
