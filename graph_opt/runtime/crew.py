"""The threads of one stage in one session.

What a thread does:

    step, step, step ... ──> closed error: this thread ends; the last one closes the buffer
       │        └─ ignored error: batch skipped, next step
       └─ any other error: this buffer and all downstream get it, all their threads end
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from graph_opt.compat import callables, tf
from graph_opt.runtime import python_facts
from graph_opt.runtime.outcome import CLOSED, IGNORED, Status, outcome_of, status_of
from graph_opt.runtime.stage_control import BufferControl, StageSteps, Step
from graph_opt.runtime.stages import Put, Stage
from graph_opt.runtime.trace import StepRecord, StepTrace, Wait
from graph_opt.runtime.trace_waits import run_traced

# A stage that skips every batch would spin for ever without a word.
IGNORED_IN_A_ROW_LIMIT = 1000

Fail = Callable[[Stage, Status], None]


class Crew:
    """Threads that fill the buffer of one stage. Made by `StageRunner`."""

    def __init__(
        self, session: Any, stage: Stage, control: BufferControl, trace: StepTrace, daemon: bool
    ) -> None:
        """Compiles the stage's steps; starts nothing."""
        self.stage = stage
        self.stopping = False
        self._session = session
        self._control = control
        self._trace = trace
        self._facts = python_facts.recall(session.graph, stage.name)
        self._compiler = StageSteps(session, stage)
        self._lock = threading.Lock()
        self._fail: Optional[Fail] = None
        self._all_ended: Optional[Callable[[], None]] = None
        self._traced: Dict[str, Step] = {}
        self.threads: List[threading.Thread] = []
        for put in stage.puts:
            step = self._compiler.step(put)
            for _ in range(put.threads_num):
                self._add_thread(put, step, daemon)
        self._working = len(self.threads)
        self._steps = [0] * len(self.threads)
        self._ignored = [0] * len(self.threads)

    def start(self, fail: Fail, all_ended: Callable[[], None]) -> None:
        """Starts the threads.

        Args:
          fail: Called, from a thread of the stage, with an error that is no end of input.
          all_ended: Called from the last thread that ends.
        """
        self._fail = fail
        self._all_ended = all_ended
        for thread in self.threads:
            thread.start()

    def counters(self) -> Dict[str, int]:
        """Steps done, batches ignored and threads alive."""
        return {
            "steps": sum(self._steps),
            "ignored": sum(self._ignored),
            "threads": sum(thread.is_alive() for thread in self.threads),
        }

    def _add_thread(self, put: Put, step: Step, daemon: bool) -> None:
        index = len(self.threads)
        name = "graph_opt/{}/{}".format(self.stage.name, index)
        thread = threading.Thread(
            target=self._work, args=(put, step, index), name=name, daemon=daemon
        )
        self.threads.append(thread)

    def _work(self, put: Put, step: Step, index: int) -> None:
        try:
            self._loop(put, step, index)
        finally:
            self._thread_ended()

    def _loop(self, put: Put, step: Step, index: int) -> None:
        trace, stage, steps = self._trace, self.stage.name, self._steps
        thread = threading.current_thread().name
        clock = time.perf_counter
        ignored_before = 0
        while not self.stopping:
            start = clock()
            waits: Tuple[Wait, ...] = ()
            try:
                if trace.detailed:
                    waits = run_traced(self._traced_step(put))
                else:
                    step()
            except BaseException as error:  # also SystemExit: a thread must not die unnoticed
                if not self._goes_on_after(error, self._ignored[index] - ignored_before):
                    return
                self._ignored[index] += 1
                continue
            trace.append(StepRecord(stage, thread, steps[index], start, clock(), waits))
            steps[index] += 1
            ignored_before = self._ignored[index]

    def _traced_step(self, put: Put) -> Step:
        with self._lock:
            if put.name not in self._traced:
                self._traced[put.name] = self._compiler.step(put, traced=True)
            return self._traced[put.name]

    def _goes_on_after(self, error: BaseException, ignored_in_a_row: int) -> bool:
        if self.stopping or callables.is_closed(self._session):
            return False
        outcome = outcome_of(error, self.stage, self._facts)
        if outcome == IGNORED and ignored_in_a_row < IGNORED_IN_A_ROW_LIMIT:
            return True
        if outcome != CLOSED:
            status = status_of(error)
            if outcome == IGNORED:
                status = _too_many_ignored(self.stage, status)
            self._report(status)
        return False

    def _report(self, status: Status) -> None:
        if self._fail is not None:
            self._fail(self.stage, status)

    def _thread_ended(self) -> None:
        with self._lock:
            self._working -= 1
            last = self._working == 0
        if not last:
            return
        if not self.stopping and not callables.is_closed(self._session):
            self._close()
        if self._all_ended is not None:
            self._all_ended()

    def _close(self) -> None:
        try:
            self._control.close(self.stage)
        except tf.errors.OpError as error:
            tf.logging.info("graph_opt: stage '%s' was not closed: %s", self.stage.name, error)


def _too_many_ignored(stage: Stage, last: Status) -> Status:
    message = "stage '{}' ignored {} batches in a row, the last because of: {}".format(
        stage.name, IGNORED_IN_A_ROW_LIMIT, last.message
    )
    return Status(last.code, message)
