"""Starts the prefetch threads of one session for the stages that a step needs, and ends them."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, FrozenSet, Iterable, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.sessions import share_session
from graph_opt.runtime import claims
from graph_opt.runtime.runner import StageRunner
from graph_opt.runtime.stages import Stage
from graph_opt.session.pipeline_use import PipelineUse
from graph_opt.session.stage_reach import StageReach
from graph_opt.session.step import Step

_POLL_SECONDS = 0.005
_LOCK_SECONDS = 1.0


class StageThreads:
    """One runner for each chain of stages, so that chains start and restart independently.

    Attributes:
      coordinator: A `tf.train.Coordinator` to which runners started later report.
    """

    def __init__(self) -> None:
        self.coordinator: Optional[Any] = None
        self._runners: List[StageRunner] = []
        self._started: FrozenSet[str] = frozenset()
        self._lock = threading.RLock()
        self._steps_failed = False
        self._given_up = False

    @property
    def started(self) -> FrozenSet[str]:
        """Stages for which threads were started, including those whose input has ended."""
        return self._started

    def are_as_needed(self, step: Step) -> bool:
        """Whether a step can run without starting, ending or draining any stage before."""
        pipeline, chosen = step.pipeline, step.may_take_from
        if step.resets or pipeline.drains & self._started:
            return False
        if pipeline.trains and self._steps_failed:
            return False
        return step.takes_from <= self._started and (chosen is None or chosen.all <= self._started)

    def prepare(
        self,
        session: Any,
        step: Step,
        reach: StageReach,
        feeds: Sequence[Any],
        values: Sequence[Any],
    ) -> None:
        """Starts, drains or ends stages as a step requires.

        Args:
          session: The session that owns the threads.
          step: The step.
          reach: The stages of the session's graph.
          feeds: Tensors that the step feeds.
          values: Their values.

        Raises:
          tf.errors.OpError: The session has failed, or an update of an earlier step.
        """
        self.drain(session, step.pipeline)
        if step.resets:
            self.stop(session, step.resets)
        if step.fills:
            self.leave_to_others(step.fills)
            return
        needed = step.takes_from
        chosen = step.may_take_from
        if chosen is not None and not chosen.all <= self._started:
            needed |= chosen.of(session, feeds, values)
        for name in sorted(needed - self._started):
            self.start(session, reach.chain(name))

    def leave_to_others(self, names: FrozenSet[str]) -> None:
        """Notes that a prefetch hook or a script's own threads fill these stages."""
        if not names <= self._started:
            with self._lock:
                self._started |= names

    def start(self, session: Any, chain: Sequence[Stage]) -> None:
        """Starts the threads of those stages of a chain that have none yet.

        Args:
          session: The session that owns these threads.
          chain: Stages that take from each other, upstream first.

        Raises:
          tf.errors.OpError: The session has failed, or lacks a thread pool that a stage asks for.
        """
        with self._lock:
            waiting = [stage for stage in chain if stage.name not in self._started]
            if not waiting:
                return
            # A thread that held the session itself would keep it from being garbage-collected.
            runner = StageRunner(waiting, share_session(session), self.coordinator)
            runner.start()
            self._runners.append(runner)
            self._started |= {stage.name for stage in waiting}

    def stop(self, session: Any, names: Iterable[str]) -> None:
        """Ends the threads of these stages and drops their batches; a later step restarts them.

        Returns only when no thread is left, however long its source blocks it: what it still reads
        belongs to the old input and must not end up among the batches of the new one. A prefetch
        hook has one runner for all stages, so its other stages restart as well, on the same input.
        """
        ended = frozenset(names)
        failed: Optional[BaseException] = None
        with self._lock:
            for runner in self._runners_of(session):
                run = {stage.name for stage in runner.stages}
                if ended.isdisjoint(run):
                    continue
                runner.stop()
                while runner.running:
                    time.sleep(_POLL_SECONDS)
                failed = failed or runner.take_undelivered()
                self._runners = [other for other in self._runners if other is not runner]
                ended |= run
            self._started -= ended
        if failed is not None:
            raise failed

    def exhausted(self, names: Iterable[str]) -> FrozenSet[str]:
        """Those of these stages that have ended, and from which all batches were taken."""
        ended = (name for runner in self._runners for name in runner.exhausted())
        return frozenset(names).intersection(ended)

    def drain(self, session: Any, use: PipelineUse) -> None:
        """Prepares stages that apply gradients for a step.

        Args:
          session: The session that owns the threads.
          use: What the step means to them.

        Raises:
          tf.errors.OpError: An update failed.
        """
        if use.trains and self._steps_failed:
            self._steps_failed = False
            self.stop(session, use.trains)
        if use.drains & self._started:
            self.apply_gradients(session)

    def apply_gradients(self, session: Any) -> None:
        """Waits until all gradients that steps have left to stages are applied.

        Raises:
          tf.errors.OpError: An update failed.
        """
        for runner in self._runners_of(session):
            try:
                runner.drain()
            except tf.errors.OpError:
                self._steps_failed = True
                raise

    def note_failed_step(
        self, session: Any, error: BaseException, takes_from: Callable[[], FrozenSet[str]]
    ) -> None:
        """Notes that a step failed, which may have taken weights and put no gradients.

        Args:
          session: The session that owns the threads.
          error: The step's.
          takes_from: Names the stages that it takes from.
        """
        for runner in self._runners_of(session):
            if isinstance(error, tf.errors.FailedPreconditionError):
                runner.note_uninitialized(takes_from())
            if any(stage.pipeline is not None for stage in runner.stages):
                runner.forget_failure(str(error))
                self._steps_failed = True

    def give_up(self, session: Any) -> None:
        """Has threads end without waiting for servers, which are lost."""
        self._given_up = True
        for runner in self._runners_of(session):
            runner.leave_gradients()

    def stop_all(self, session: Any) -> Optional[BaseException]:
        """Ends all threads of the session, including those that a prefetch hook started.

        Returns:
          The error of an update that no step has raised; None if there was none.
        """
        failed = None
        # A thread that was left behind while it started or ended stages still holds it.
        is_held = self._lock.acquire(timeout=_LOCK_SECONDS if self._given_up else -1)
        try:
            for runner in self._runners_of(session):
                runner.stop()
                failed = failed or runner.take_undelivered()
        finally:
            if is_held:
                self._lock.release()
        return failed

    def _runners_of(self, session: Any) -> List[StageRunner]:
        if not self._started:
            return []
        known = self._runners + claims.runners_of(share_session(session))
        return list({id(runner): runner for runner in known}.values())


def apply_gradients(session: Any) -> None:
    """Waits until all gradients that steps of a session have left to stages are applied.

    Args:
      session: Any session; only those of graph_opt have such stages.
    """
    threads = getattr(session, "stage_threads", None)
    if threads is not None:
        threads.apply_gradients(session)
