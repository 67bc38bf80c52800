"""The workers of one stage in one session.

What a worker does:

    step, step, step ... ──> closed error: this worker ends; the last one closes the buffer
       │        └─ ignored error: batch skipped, next step
       └─ any other error: this buffer and all downstream get it, all their workers end
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from graph_opt.compat import callables, tf
from graph_opt.ops.stage_nodes import KIND_PREFETCH
from graph_opt.runtime import python_facts
from graph_opt.runtime.adaptive_step import AdaptiveStep
from graph_opt.runtime.outcome import CLOSED, IGNORED, Status, outcome_of, status_of
from graph_opt.runtime.payoff import MeasuredStep
from graph_opt.runtime.stage_control import BufferControl, StageSteps, Step
from graph_opt.runtime.stage_worker import StageWorker, Yielding
from graph_opt.runtime.stages import Put, Stage
from graph_opt.runtime.trace import StepRecord, StepTrace, Wait
from graph_opt.runtime.trace_waits import run_traced

# A stage that skips every batch would spin for ever without a word.
IGNORED_IN_A_ROW_LIMIT = 1000

Fail = Callable[[Stage, Status], None]


class Crew:
    """Workers that fill the buffer of one stage. Made by `StageRunner`."""

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
        self._begun: Optional[Callable[[], None]] = None
        self._holds_batch: Optional[Callable[[], bool]] = None
        self._traced: Dict[str, Step] = {}
        self._workers: List[StageWorker] = []
        for put in stage.puts:
            step = self._compiler.step(put)
            for _ in range(put.threads_num):
                self._add_worker(put, step, daemon)
        self._working = len(self._workers)
        self._steps = [0] * len(self._workers)
        self._ignored = [0] * len(self._workers)

    @property
    def threads(self) -> List[threading.Thread]:
        """All threads that its workers have by now."""
        return [thread for worker in self._workers for thread in worker.threads]

    def start(
        self,
        fail: Fail,
        all_ended: Callable[[], None],
        holds_batch: Callable[[], bool],
        begun: Callable[[], None],
    ) -> None:
        """Starts the workers.

        Args:
          fail: Called, from a thread of the stage, with an error that is no end of input.
          all_ended: Called from the last thread that ends.
          holds_batch: Whether the buffer holds a batch for its consumers.
          begun: Called once, from a thread of the stage, when the first batch is put.
        """
        self._fail = fail
        self._all_ended = all_ended
        self._begun = begun
        self._holds_batch = holds_batch
        yielding = None
        if self._compiler.own_thread and self.stage.priority > 0:
            yielding = Yielding(self.stage.priority, holds_batch)
        for worker in self._workers:
            worker.start(yielding)

    def counters(self) -> Dict[str, int]:
        """Steps done, batches ignored and workers that have not ended."""
        return {
            "steps": sum(self._steps),
            "ignored": sum(self._ignored),
            "threads": sum(worker.at_work for worker in self._workers),
        }

    def _add_worker(self, put: Put, step: Step, daemon: bool) -> None:
        index = len(self._workers)
        name = "graph_opt/{}/{}".format(self.stage.name, index)
        if self._compiler.own_thread:
            step = AdaptiveStep(step, lambda: self._compiler.shared_step(put), self._is_awaited)
            if index == 0 and self.stage.kind == KIND_PREFETCH:
                step = self._measured(step)
        loop = self._loop(put, step, index, name)
        own_thread = self._compiler.own_thread
        self._workers.append(StageWorker(name, loop, self._worker_ended, own_thread, daemon))

    def _is_awaited(self) -> bool:
        return self._holds_batch is not None and not self._holds_batch()

    def _measured(self, step: Step) -> Step:
        workers = sum(put.threads_num for put in self.stage.puts)
        stages = 1 + len(self.stage.upstream)
        empty_step = lambda: self._control.empty_step(self.stage)  # noqa: E731
        return MeasuredStep(step, workers, stages, empty_step, self._session.graph)

    def _loop(self, put: Put, step: Step, index: int, thread: str) -> Iterator[None]:
        """Runs the steps of one worker; yields before each."""
        trace, stage, steps = self._trace, self.stage.name, self._steps
        clock = time.perf_counter
        ignored_before = 0
        while not self.stopping:
            yield
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
            if self._begun is not None:
                self._have_begun()

    def _have_begun(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, None
        if begun is not None:
            begun()

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

    def _worker_ended(self) -> None:
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
