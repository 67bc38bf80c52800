"""One worker of a stage: two threads of different priority, of which one works at a time.

    normal:   step, step ──┐            ┌── step ...      main waits for the stage
    low:                   └ step, step ┘                 the buffer holds a batch

Few processes may raise a priority that they have lowered, so one thread cannot do both. A worker
that never yields, or whose steps are short, has no second thread.
"""

from __future__ import annotations

import threading
import time
from typing import Callable, Iterator, List, NamedTuple, Optional

from graph_opt.ops.stage_thread import ThreadKind, be_stage_thread
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime import thread_priority

# A shorter step delays main by less than it costs to hand it to another thread; and a single long
# step says nothing about the next one.
_WORTH_YIELDING_SECONDS = 0.00025
_WORTH_YIELDING_STEPS = 2
# If main waited for a step that went without a core for this long, and got less than a fifth of
# one, other processes keep the cores busy. Steps then do not yield for so long that the wait costs
# two percent.
_STARVED_SECONDS = 0.02
_STARVED_RATIO = 4
_PAUSE_RATIO = 50


class Yielding(NamedTuple):
    """When a worker yields to the other threads of the machine, and by how much.

    Attributes:
      priority: An argument of `thread_priority.lower`.
      is_due: Whether a step that begins now can take its time.
    """

    priority: int
    is_due: Callable[[], bool]


class StageWorker:
    """Runs a loop of steps, each in the thread whose turn it is.

    Args:
      name: Name of its threads.
      loop: Yields before each step.
      ended: Called when the loop has ended, from the thread that ran it last.
      own_thread: Whether the kernels of a step run in the thread that runs the step.
      daemon: Whether its threads let the process end without being stopped.
    """

    def __init__(
        self,
        name: str,
        loop: Iterator[None],
        ended: Callable[[], None],
        own_thread: bool,
        daemon: bool,
    ) -> None:
        self._name = name
        self._loop = loop
        self._ended = ended
        self._own_thread = own_thread
        self._daemon = daemon
        self._yielding: Optional[Yielding] = None
        self._turns = {low: threading.Semaphore(0) for low in (False, True)}
        self._over = False
        self._long_steps = 0
        self._yields_from = 0.0
        self._threads: List[threading.Thread] = []

    @property
    def threads(self) -> List[threading.Thread]:
        """The threads that it has needed so far."""
        return list(self._threads)

    @property
    def at_work(self) -> bool:
        """Whether it has started and not yet ended."""
        return any(thread.is_alive() for thread in self._threads)

    def start(self, yielding: Optional[Yielding]) -> None:
        """Starts the loop, at normal priority.

        Args:
          yielding: None if it never yields.
        """
        self._yielding = yielding
        self._hand_over(low=False)

    def _hand_over(self, low: bool) -> None:
        if len(self._threads) <= low:
            target = self._work_low if low else self._work
            thread = threading.Thread(target=target, name=self._name, daemon=self._daemon)
            self._threads.append(thread)
            thread.start()
        self._turns[low].release()

    def _work(self) -> None:
        self._be(ThreadKind.RUNS_STEPS)
        self._take_turns(low=False)

    def _work_low(self) -> None:
        assert self._yielding is not None
        refused = thread_priority.lower(self._yielding.priority)
        if refused:
            warn_once(
                "prefetch_priority has no effect: threads that prefetch keep the priority of "
                "the others: " + refused
            )
            self._yielding = None
            self._turns[False].release()
            return
        self._be(ThreadKind.YIELDS)
        self._take_turns(low=True)

    def _be(self, kind: ThreadKind) -> None:
        if self._own_thread:
            be_stage_thread(kind)

    def _take_turns(self, low: bool) -> None:
        while True:
            self._turns[low].acquire()
            if self._over:
                return
            ended = True
            try:
                ended = self._run_steps(low)
            finally:
                if ended:
                    self._end(low)
            if ended:
                return
            self._hand_over(not low)

    def _end(self, low: bool) -> None:
        self._over = True
        self._turns[not low].release()
        self._ended()

    def _run_steps(self, low: bool) -> bool:
        """Runs steps while it is this thread's turn; returns whether the loop has ended."""
        yielding = self._yielding
        worked, since = time.thread_time(), time.perf_counter()
        for _ in self._loop:
            if yielding is None:
                continue
            now = time.perf_counter()
            has_time = yielding.is_due()
            if now - since <= _WORTH_YIELDING_SECONDS:
                # It has worked for no longer, on a clock that takes as long to read as all of this.
                self._long_steps = 0
                worked += now - since
            else:
                cpu = time.thread_time()
                self._note_length(cpu - worked)
                if low and not has_time:
                    self._note_lateness(cpu - worked, now - since)
                worked = cpu
            since = now
            if (has_time and self._is_worth_yielding(now)) != low:
                return False
        return True

    def _note_length(self, cpu_seconds: float) -> None:
        is_long = cpu_seconds > _WORTH_YIELDING_SECONDS
        self._long_steps = self._long_steps + 1 if is_long else 0

    def _note_lateness(self, cpu_seconds: float, seconds: float) -> None:
        lost = seconds - cpu_seconds
        if lost > max(_STARVED_SECONDS, _STARVED_RATIO * cpu_seconds):
            self._yields_from = time.perf_counter() + _PAUSE_RATIO * lost

    def _is_worth_yielding(self, now: float) -> bool:
        return self._long_steps >= _WORTH_YIELDING_STEPS and now >= self._yields_from
