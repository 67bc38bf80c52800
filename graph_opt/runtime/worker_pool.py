"""The worker pool of one stage in one session.

What a worker does:

    step, step, step ... ──> closed error: this worker ends; the last one closes the buffer
       │        ├─ ignored error: batch skipped, next step
       │        └─ any other error: put into the buffer in place of the batch, next step
       └─ the buffer or the session is lost: all stages downstream are told, and their workers end
"""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from graph_opt.compat import callables, tf
from graph_opt.ops.tensor_buffer import NO_PLACE
from graph_opt.runtime import python_spec
from graph_opt.runtime.adaptive_step import AdaptiveStep
from graph_opt.runtime.aside import Aside
from graph_opt.runtime.error_text import as_in_graph, too_many_ignored
from graph_opt.runtime.lock_step import lock_step_of
from graph_opt.runtime.outcome import CLOSED, FAILED, IGNORED, Status, outcome_of, status_of
from graph_opt.runtime.payoff import MeasuredStep
from graph_opt.runtime.stage_control import BufferControl, LastPlace, StageSteps, Step
from graph_opt.runtime.stage_exchange import StageExchange
from graph_opt.runtime.stage_waits import StageThreadsState
from graph_opt.runtime.stage_worker import StageWorker, Yielding
from graph_opt.runtime.stages import Put, Stage
from graph_opt.runtime.trace import StepRecord, StepTrace, Wait
from graph_opt.runtime.trace_waits import run_traced
from graph_opt.runtime.uninitialized import Uninitialized

TOO_MANY_IGNORED = "too many ignored"
# A stage that skips every batch would spin forever without a word, so its last error is raised.
IGNORED_IN_A_ROW_LIMIT = 1000

_LEAVING = Status(tf.errors.CANCELLED, "has ended its session, and prefetches no more")

_END_OF_INPUT = "the input has ended"
_OF_UPDATE = "the update of an earlier step failed: "
_POLL_SECONDS = 0.1

Fail = Callable[[Stage, Status], None]


class WorkerPool:
    """Workers that fill the buffer of one stage. Made by `StageRunner`."""

    def __init__(
        self,
        session: Any,
        stage: Stage,
        control: BufferControl,
        trace: StepTrace,
        daemon: bool,
        first_place: int,
    ) -> None:
        """Compiles the stage's steps, whose places begin with `first_place`; starts nothing."""
        self.stage = stage
        self.stopping = False
        self._session = session
        self._control = control
        self._trace = trace
        self._python_side = python_spec.recall(session.graph, stage.name)
        self._compiler = StageSteps(session, stage, first_place)
        self._aside = Aside("graph_opt/{}/aside".format(stage.name))
        self._exchange: Optional[StageExchange] = None
        if stage.exchange is not None:
            self._exchange = StageExchange(session, stage, stage.exchange)
        self._leaving = _LEAVING
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._failed = 0
        self._failures: List[Status] = []
        self._fail: Optional[Fail] = None
        self._all_ended: Optional[Callable[[], None]] = None
        self._begun: Optional[Callable[[], None]] = None
        self._holds_batch: Optional[Callable[[], bool]] = None
        self._yielding: Optional[Yielding] = None
        self._daemon = daemon
        self._workers: List[StageWorker] = []
        self._steps: List[int] = []
        self._ignored: List[int] = []
        self._begun_at: List[Optional[float]] = []
        for put in stage.puts:
            for _ in range(put.threads_num):
                self._workers.append(self._worker(put, len(self._workers)))
        self._wanted = self._working = len(self._workers)
        self._retired: Set[int] = set()
        self._ending = False
        self._ended_by = ""
        self._lock_step = lock_step_of(session) if stage.spec.is_prefetch else None
        self.uninitialized = Uninitialized(stage, control, lambda: self.stopping or self._ending)

    @property
    def threads(self) -> List[threading.Thread]:
        """All threads that its workers have so far."""
        return [thread for worker in self._workers for thread in worker.threads]

    @property
    def threads_aside(self) -> List[threading.Thread]:
        """Those that have done work which batches did not wait for."""
        return self._aside.threads

    def start(
        self,
        fail: Fail,
        all_ended: Callable[[], None],
        holds_batch: Callable[[], bool],
        begun: Callable[[], None],
    ) -> None:
        """Starts the workers.

        Args:
          fail: Called, from a thread of the stage, with an error that is not the end of input.
          all_ended: Called from the last thread to end.
          holds_batch: Whether the buffer holds a batch for its consumers.
          begun: Called once, from a thread of the stage, when the first batch is put.
        """
        self._fail = fail
        self._all_ended = all_ended
        self._begun = begun
        self._holds_batch = holds_batch
        if self._compiler.own_thread and self.stage.spec.priority > 0:
            self._yielding = Yielding(self.stage.spec.priority, holds_batch)
        for worker in self._workers:
            worker.start(self._yielding)

    def resize(self, workers: int) -> None:
        """Changes the number of workers of a stage with one put, while they run.

        New ones start at once, at the priority of the calling thread. One that is too many ends
        once it has put the batch that it is working on.

        Args:
          workers: How many there should be, at least 1.
        """
        with self._lock:
            self._wanted = workers
            if self.stopping or self._ending:
                return
            known = len(self._workers)
            missing = [i for i in range(workers) if i >= known or i in self._retired]
            self._retired.difference_update(missing)
            self._working += len(missing)
            for index in missing:
                worker = self._worker(self.stage.puts[0], index)
                self._workers[index : index + 1] = [worker]
                worker.start(self._yielding)

    def counters(self) -> Dict[str, int]:
        """Numbers of steps done, batches ignored, and workers that have not ended."""
        return {
            "steps": sum(self._steps),
            "ignored": sum(self._ignored),
            "threads": sum(worker.at_work for worker in self._workers),
        }

    def state(self) -> StageThreadsState:
        """What its workers are doing."""
        now = time.perf_counter()
        return StageThreadsState(
            stage=self.stage.name,
            upstream=self.stage.spec.upstream,
            at_work=sum(worker.at_work for worker in self._workers),
            seconds_in_step=tuple(now - at for at in self._begun_at if at is not None),
            ended=self._ended_by,
        )

    def _worker(self, put: Put, index: int) -> StageWorker:
        if index == len(self._steps):
            self._steps.append(0)
            self._ignored.append(0)
            self._begun_at.append(None)
        name = "graph_opt/{}/{}".format(self.stage.name, index)
        last = LastPlace()
        step = self._compiler.step(put, last)
        if self._compiler.own_thread:
            shared_step = self._compiler.shared_step(put, last)
            step = AdaptiveStep(step, shared_step, self._is_awaited)
            if index == 0 and self.stage.spec.is_prefetch:
                step = self._measured(step)
        loop = self._loop(put, step, last, index, name)
        own_thread = self._compiler.own_thread
        return StageWorker(name, loop, self._worker_ended, own_thread, self._daemon)

    def _is_awaited(self) -> bool:
        return self._holds_batch is not None and not self._holds_batch()

    def _measured(self, step: Step) -> Step:
        stages = 1 + len(self.stage.spec.upstream)
        empty_step = lambda: self._control.empty_step(self.stage)  # noqa: E731
        return MeasuredStep(
            step, lambda: self._wanted, stages, empty_step, self._session.graph, self._aside.begin
        )

    def _loop(
        self, put: Put, step: Step, last: LastPlace, index: int, thread: str
    ) -> Iterator[None]:
        """Runs the steps of one worker; yields before each."""
        trace, stage, steps = self._trace, self.stage.name, self._steps
        clock = time.perf_counter
        traced: Optional[Step] = None
        ignored_in_a_row = 0
        while not self.stopping:
            yield
            self.uninitialized.may_begin(index)
            if self._is_too_many(index) or not self._may_begin():
                return
            start = self._begun_at[index] = clock()
            waits: Tuple[Wait, ...] = ()
            is_traced = trace.detailed
            try:
                if is_traced:
                    traced = traced or self._compiler.step(put, last, traced=True)
                    waits = run_traced(traced)
                else:
                    step()
            except BaseException as failure:  # even SystemExit: a thread must not die unnoticed
                error = self._agreed_on(failure, last.place)
                if error is None:
                    self._ending, self._ended_by = True, _END_OF_INPUT
                    self._put_status(last.place, None)
                    return
                outcome = self._outcome_of(error, ignored_in_a_row, index)
                if not self._goes_on_after(error, outcome, last.place):
                    self._ending = True
                    return
                ignored_in_a_row = ignored_in_a_row + 1 if outcome == IGNORED else 0
                self._ignored[index] += outcome == IGNORED
                if outcome == IGNORED and self._lock_step is not None:
                    self._lock_step.ask([stage])  # Main still waits for a batch.
                continue
            end = clock()
            trace.append(StepRecord(stage, thread, steps[index], start, end, waits, is_traced))
            steps[index] += 1
            self._begun_at[index] = None
            ignored_in_a_row = 0
            if self.stage.pipeline is not None:
                self._note_progress(None)
            if self._begun is not None:
                self._have_begun()

    def _may_begin(self) -> bool:
        """Waits until main asks for the batch, if it goes in lock-step; False when stopping."""
        lock_step = self._lock_step
        if lock_step is None:
            return True
        # The end of the input, which another worker has met, is known once all have ended.
        return lock_step.wait(self.stage.name, lambda: self.stopping or self._ending)

    def _is_too_many(self, index: int) -> bool:
        if index < self._wanted:
            return False
        with self._lock:
            if index >= self._wanted:
                self._retired.add(index)
            return index in self._retired

    def _have_begun(self) -> None:
        with self._lock:
            begun, self._begun = self._begun, None
        if begun is not None:
            begun()

    def _outcome_of(self, error: BaseException, ignored_in_a_row: int, index: int) -> str:
        outcome = outcome_of(error, self.stage.spec, self._python_side)
        if outcome == IGNORED and ignored_in_a_row >= IGNORED_IN_A_ROW_LIMIT:
            return TOO_MANY_IGNORED
        if outcome == FAILED and self.uninitialized.is_dropped(index, error):
            return IGNORED
        return outcome

    def _agreed_on(self, error: BaseException, place: int) -> Optional[BaseException]:
        if self._exchange is None or callables.is_closed(self._session):
            return error
        return self._exchange.agreed_on(error, place, self._python_side, self.stopping)

    def _goes_on_after(self, error: BaseException, outcome: str, place: int) -> bool:
        if self.stopping or callables.is_closed(self._session):
            return False
        if outcome == CLOSED:
            self._ended_by = _END_OF_INPUT
        if outcome in (CLOSED, IGNORED):
            return self._put_status(place, None) and outcome == IGNORED
        status = status_of(error)
        status = status._replace(message=as_in_graph(status.message, self._session.graph))
        if self.stage.pipeline is not None:
            status = status._replace(message=_OF_UPDATE + status.message)
            self._note_progress(status)
        if outcome == TOO_MANY_IGNORED:
            told = too_many_ignored(self.stage.name, IGNORED_IN_A_ROW_LIMIT, status.message)
            status = status._replace(message=told)
        broken = self._exchange is not None and self._exchange.broken
        if broken or not isinstance(error, Exception):
            self._report(status)
            return False
        over = self._exchange is not None and self._exchange.over
        return self._put_status(place, status) and self._gives_turn() and not over

    def _gives_turn(self) -> bool:
        """Lets the next step begin where one waits for the other; returns whether it could."""
        if self.stage.pipeline is None:
            return True
        try:
            self._control.begin_turn(self.stage)
        except tf.errors.OpError as lost:
            if not self.stopping and not callables.is_closed(self._session):
                self._report(status_of(lost))
            return False
        return True

    def _note_progress(self, failure: Optional[Status]) -> None:
        with self._progress:
            if failure is not None:
                self._failed += 1
                self._failures.append(failure)
            self._progress.notify_all()

    def wait_for_pushed(self, count: int, until: Optional[float]) -> bool:
        """Waits until as many steps as this have ended, successfully or not.

        Args:
          count: Of a stage that applies gradients.
          until: When to give up, on the monotonic clock; None for never.

        Returns:
          Whether they have ended.
        """
        with self._progress:
            while sum(self._steps) + self._failed < count:
                if self._working == 0 or (until is not None and time.monotonic() >= until):
                    return False
                self._progress.wait(_POLL_SECONDS)
        return True

    def take_failure(self, message: str = "") -> Optional[Status]:
        """Forgets the first error of a step that was not taken yet, and returns it.

        Args:
          message: Of an error that was raised: only an error that it contains is taken.
        """
        with self._lock:
            for number, failure in enumerate(self._failures):
                if not message or failure.message in message:
                    return self._failures.pop(number)
        return None

    def _put_status(self, place: int, status: Optional[Status]) -> bool:
        """Puts an error, or None for nothing, in the place of a batch; returns whether it could."""
        if status is None and place == NO_PLACE:
            return True
        try:
            self._control.put_status(self.stage, place, status)
        except tf.errors.OpError as lost:
            if not self.stopping and not callables.is_closed(self._session):
                self._report(status or status_of(lost))
            return False
        return True

    def _report(self, status: Status) -> None:
        self._leaving = status
        self._ended_by = status.message.strip().partition("\n")[0]
        if self._fail is not None:
            self._fail(self.stage, status)

    def _worker_ended(self) -> None:
        with self._lock:
            self._working -= 1
            last = self._working == 0
        if not last:
            return
        if self._exchange is not None and not callables.is_closed(self._session):
            self._exchange.leave(self._leaving)
        if not self.stopping and not callables.is_closed(self._session):
            self._close()
        if self._all_ended is not None:
            self._all_ended()

    def _close(self) -> None:
        try:
            self._control.close(self.stage)
        except tf.errors.OpError as error:
            tf.logging.info("graph_opt: stage '%s' was not closed: %s", self.stage.name, error)
