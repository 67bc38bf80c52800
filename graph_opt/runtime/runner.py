"""Runs the stages of one session: starts their threads, passes errors on, and stops them.

For each stage the runner reopens the buffer in the calling thread, so that a recovered session
starts afresh. Then it starts its threads, each of which calls a compiled callable of the put in a
loop. Unless a thread pool is asked for, the kernels of a step run one after the other in the thread
that calls it, and a put or take that must wait blocks that thread. So a step neither takes threads
from main nor continues in the thread that ended its wait.

This holds for direct sessions on several cores only: a gRPC session runs the kernels of its stages
on the server's threads, beside main's (see `ops/stage_threads.py`).

Places keep counting from run to run, so a step that outlives its runner, on a server, is refused by
the buffer that the next runner has resumed.

How it ends:

    coordinator stops, or stop() ──> buffers cancelled ──> puts and takes return ──> threads end
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from typing import Any, Dict, Iterable, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.callables import is_closed, is_direct_session, raw_session
from graph_opt.ops.masters import correct_masters
from graph_opt.ops.stage_thread import BufferWatch, watching
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.runtime import claims, metrics
from graph_opt.runtime.aside import Aside
from graph_opt.runtime.outcome import Status
from graph_opt.runtime.stage_control import BufferControl
from graph_opt.runtime.stage_exchange import as_error
from graph_opt.runtime.stage_tuner import StageTuner
from graph_opt.runtime.stage_waits import StageThreadsState
from graph_opt.runtime.stages import Stage, downstream_of
from graph_opt.runtime.trace import trace_of
from graph_opt.runtime.worker_pool import WorkerPool

# A step that waits for its source (not for a buffer) cannot be interrupted. It ends when the
# session closes, and closing must not wait for it.
_JOIN_SECONDS = 0.7
# Nor for longer than this for the other ranks, which a stage with exchanges tells of its end.
_LEAVE_SECONDS = 5.0
_STOP_POLL_SECONDS = 0.1
# Nor for longer than this until gradients are applied, on servers that may be gone.
_PUSH_SECONDS = 10.0
_NOT_APPLIED = (
    "stage '{}': the gradients of the last steps were not applied in time: the variables lack them"
)
_STOPPED = Status(tf.errors.CANCELLED, "prefetching has stopped: the session is ending")

_running: Any = weakref.WeakSet()


class StageRunner:
    """The threads of a session's stages.

    Example:
      >>> runner = StageRunner(stages_of(graph), session, coordinator)
      >>> runner.start()
      >>> session.run(train_op)
      >>> runner.stop()
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        session: Any,
        coordinator: Optional[Any] = None,
        daemon: bool = True,
    ) -> None:
        """Makes a runner, which does nothing before `start`.

        Args:
          stages: The stages to run, upstream first, as `stages_of` returns them.
          session: The session, monitored or not.
          coordinator: A `tf.train.Coordinator` that ends the threads when it stops; optional.
          daemon: Whether the process may end while the threads are running.
        """
        self._session = raw_session(session)
        self._stages = list(stages)
        self._coordinator = coordinator
        self._daemon = daemon
        self._control = BufferControl(self._session)
        self._aside = Aside("graph_opt/aside")
        self._pools: Dict[str, WorkerPool] = {}
        self._pools_at_work = 0
        self._tuner: Optional[StageTuner] = None
        self._supervisor: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._join_deadline = 0.0
        self._put_before: Dict[str, int] = {}
        self._undelivered: Optional[tf.errors.OpError] = None
        self._leaves_gradients = False
        self._process_ends = False

    @property
    def stages(self) -> List[Stage]:
        """The stages that this runner runs, without those of the session's other runners."""
        return list(self._stages)

    @property
    def running(self) -> bool:
        """Whether any thread is alive."""
        return any(thread.is_alive() for thread in self._threads())

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called, or the coordinator has stopped."""
        return self._stopped.is_set()

    def start(self) -> None:
        """Opens the buffers in the calling thread and starts the threads, those of io stages first.

        Stages that another runner of this session already runs are left to it.

        Raises:
          tf.errors.OpError: the session has failed, or lacks a thread pool that a stage asks for.
          RuntimeError: the runner was started before; make a new one.
        """
        if self._pools or self._stopped.is_set():
            raise RuntimeError("this runner was started before: make a new one")
        self._stages = claims.claim(self._session, self._stages, self)
        if not self._stages:
            return
        try:
            claims.claim_messages(self._stages, self)
            watch = self._open()
        except BaseException:
            claims.release(self._session, self)
            raise
        self._pools_at_work = len(self._pools)
        tuner = StageTuner(self._session, list(self._pools.values()), self._control)
        self._tuner = tuner
        _stop_at_exit(self)
        for pool in self._pools.values():
            holds_batch = watch.readiness(pool.stage.name)
            pool.start(self._fail, self._pool_ended, holds_batch, self._first_batch_put)
        tuner.start()
        if self._coordinator is not None:
            self._start_supervisor(self._coordinator)

    def stop(self) -> None:
        """Cancels all buffers and waits for the threads. Calling it again does nothing.

        Main's later takes fail with CancelledError. A thread whose step waits for its source is
        left behind with a warning: closing the session ends it.
        """
        self._shut_down()
        supervisor = self._supervisor
        if supervisor is not None and supervisor is not threading.current_thread():
            supervisor.join()

    def stop_with_process(self) -> None:
        """Does as `stop`, without a word about threads that are left behind: they end, too."""
        self._process_ends = True
        self.stop()

    def drain(self) -> None:
        """Waits until all gradients that steps have put are applied, unless it was stopped.

        Raises:
          tf.errors.OpError: An update failed, and no step has raised its error yet.
        """
        if not self._stopped.is_set():
            self._drain(None)

    def _drain(self, seconds: Optional[float]) -> None:
        until = None if seconds is None else time.monotonic() + seconds
        for name, put_before in self._put_before.items():
            pool = self._pools[name]
            count = self._control.gradients_put(pool.stage) - put_before
            applied = pool.wait_for_pushed(count, until)
            failure = pool.take_failure()
            if failure is not None:
                raise as_error(failure)
            if not applied:
                raise tf.errors.DeadlineExceededError(None, None, _NOT_APPLIED.format(name))

    def leave_gradients(self) -> None:
        """Has `stop` not wait until gradients are applied, since their servers are lost."""
        self._leaves_gradients = True

    def note_uninitialized(self, names: Iterable[str]) -> None:
        """Notes that a step has failed since something was not initialized.

        Args:
          names: The stages that the step takes from.
        """
        for name in names:
            pool = self._pools.get(name)
            if pool is not None:
                pool.uninitialized.note_failed_step()

    def forget_failure(self, message: str) -> None:
        """Notes that a step has raised an error with this message, maybe that of an update."""
        for name in self._put_before if message else ():
            self._pools[name].take_failure(message)

    def metrics(self) -> Dict[str, Dict[str, int]]:
        """Metrics of each stage's buffer, and the `steps`, `ignored` and `threads` of its pool."""
        return metrics.buffer_metrics(self._session)

    def counters(self) -> Dict[str, Dict[str, int]]:
        """Steps done, batches ignored and threads alive, by stage."""
        return {name: pool.counters() for name, pool in self._pools.items()}

    def states(self) -> List[StageThreadsState]:
        """What the threads of each stage are doing, upstream first."""
        return [pool.state() for pool in self._pools.values()]

    def buffers(self) -> Dict[str, Dict[str, int]]:
        """The metrics of each stage's buffer, by stage, as `decode_metrics` names them."""
        return {name: self._control.metrics(pool.stage) for name, pool in self._pools.items()}

    def exhausted(self) -> List[str]:
        """Stages that have ended, and from which all batches were taken: takes from them fail."""
        if self._pools_at_work:
            return []
        try:
            buffers = self.buffers()
        except tf.errors.OpError:  # which a step says better
            return []
        return [
            name
            for name, each in buffers.items()
            if each["size"] == 0 and (each["closed"] or each["cancelled"])
        ]

    def _open(self) -> BufferWatch:
        if not is_direct_session(self._session):
            correct_masters()
        trace = trace_of(self._session)
        # Higher than any place of an earlier runner, whose last step may still run on a server.
        first_place = time.time_ns()
        for stage in self._stages:
            self._pools[stage.name] = WorkerPool(
                self._session, stage, self._control, trace, self._daemon, first_place
            )
        with watching() as watch:
            self._control.resume(self._stages, first_place)
        for stage in self._stages:
            if stage.pipeline is not None:
                self._put_before[stage.name] = self._control.gradients_put(stage)
                self._control.fill_pipeline(stage)
        return watch

    def _first_batch_put(self) -> None:
        # Not before, as main waits for the first batch; and aside, as it will wait for the next.
        self._aside.begin(self._prepare_cancel)

    def _prepare_cancel(self) -> None:
        try:
            self._control.prepare_cancel(self._stages)
        except (tf.errors.OpError, RuntimeError) as error:
            tf.logging.info("graph_opt: the session is ending: %s", error)

    def _start_supervisor(self, coordinator: Any) -> None:
        # Only this thread is registered: it ends in time even if a step in another thread does not.
        self._supervisor = threading.Thread(
            target=self._supervise, args=(coordinator,), name="graph_opt/supervisor", daemon=True
        )
        self._supervisor.start()
        coordinator.register_thread(self._supervisor)

    def _supervise(self, coordinator: Any) -> None:
        while self.running and not self._stopped.is_set():
            if coordinator.wait_for_stop(_STOP_POLL_SECONDS):
                self._shut_down()
                return

    def _shut_down(self) -> None:
        with self._lock:
            first = not self._stopped.is_set()
            self._stopped.set()
            if first:
                exchanges = any(stage.exchange is not None for stage in self._stages)
                wait = _LEAVE_SECONDS if exchanges else _JOIN_SECONDS
                self._join_deadline = time.monotonic() + wait
        if first:
            self._end_tuning()
            self._drain_at_end()
            for pool in self._pools.values():
                pool.stopping = True
            # What is closed has cancelled its steps, and may wait for servers that are gone.
            if self.running and not is_closed(self._session):
                self._cancel(self._stages, _STOPPED)
        self._join()
        self._tell_of_late_threads()
        claims.release(self._session, self)

    def _drain_at_end(self) -> None:
        if not self._put_before or is_closed(self._session) or not self.running:
            return
        if self._leaves_gradients:
            return
        try:
            self._drain(_PUSH_SECONDS)
        except (tf.errors.OpError, RuntimeError) as error:
            self._undelivered = error
        with self._lock:
            self._join_deadline = max(self._join_deadline, time.monotonic() + _JOIN_SECONDS)

    def take_undelivered(self) -> Optional[BaseException]:
        """The error of an update that no step has raised, and that ended with the runner."""
        error, self._undelivered = self._undelivered, None
        return error

    def _join(self) -> None:
        for thread in self._threads():
            if thread is not threading.current_thread():
                thread.join(max(0.0, self._join_deadline - time.monotonic()))

    def _tell_of_late_threads(self) -> None:
        late = sorted({thread.name for thread in self._workers() if thread.is_alive()})
        if late and not self._process_ends and not is_closed(self._session):
            warn_once(
                "{} still in a step that waits for its source; it ends when the session is "
                "closed".format(", ".join(late)),
                self._session.graph,
            )

    def _fail(self, stage: Stage, status: Status) -> None:
        """Passes the error that ends a stage on to its consumers; called from its threads."""
        affected = [stage] + downstream_of(stage, self._stages)
        with self._lock:
            if self._stopped.is_set() or self._pools[stage.name].stopping:
                return
            for each in affected:
                self._pools[each.name].stopping = True
        tf.logging.warning(
            "graph_opt: stage '%s' ended with error %d: %s",
            stage.name,
            status.code,
            status.message.strip().split("\n")[0],
        )
        self._cancel(affected, status)

    def _cancel(self, stages: Sequence[Stage], status: Status) -> None:
        try:
            self._control.cancel(stages, status)
        except tf.errors.OpError as error:
            if len(stages) > 1 and not is_closed(self._session):
                for stage in stages:  # one device may be lost, the others not
                    self._cancel([stage], status)
                return
            tf.logging.info("graph_opt: %s was not cancelled: %s", stages[0].name, error.message)

    def _pool_ended(self) -> None:
        with self._lock:
            self._pools_at_work -= 1
            all_ended = self._pools_at_work == 0
        if all_ended:
            self._end_tuning()
            claims.release(self._session, self)

    def _end_tuning(self) -> None:
        if self._tuner is not None:
            self._tuner.stop()

    def _threads(self) -> List[threading.Thread]:
        tuning = [] if self._tuner is None else self._tuner.threads
        aside = [thread for pool in self._pools.values() for thread in pool.threads_aside]
        return self._workers() + tuning + self._aside.threads + aside

    def _workers(self) -> List[threading.Thread]:
        return [thread for pool in self._pools.values() for thread in pool.threads]


def _stop_at_exit(runner: StageRunner) -> None:
    if not _running:
        atexit.register(_stop_all)
    _running.add(runner)


def _stop_all() -> None:
    """Stops all runners: a thread inside TensorFlow could crash a process that is ending."""
    for runner in list(_running):
        if runner.running:
            runner.stop_with_process()
