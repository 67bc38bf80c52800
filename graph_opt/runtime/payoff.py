"""Whether prefetching pays: what it saves compared with what it costs, measured as it runs.

Prefetched lookups save main at most the time they take. For each stage, prefetching costs a step
of the session in another thread, which must be woken. If that is more, and not negligible compared
with a step of main, the user is told once, and the graph's report says so from then on.
"""

from __future__ import annotations

import statistics
import threading
import time
import weakref
from concurrent.futures import Future
from typing import Any, Callable, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import warn_once, warnings_about

_WARM_UP_STEPS = 100
_MEASURED_STEPS = 400
_EMPTY_STEPS = 50
# Longer steps of main hide the cost, so it need not be known.
_LONGEST_STEP_SECONDS = 0.005
_LEAST_SHARE = 0.1

_DOES_NOT_PAY = "running ahead of the step does not pay here"

Step = Callable[..., Any]


class Payoff(NamedTuple):
    """What was measured, in seconds for each batch.

    Attributes:
      step: From one batch of main to the next.
      lookups: CPU time of the thread that does the lookups.
      cost: The overhead of doing them in another thread.
    """

    step: float
    lookups: float
    cost: float

    @property
    def is_loss(self) -> bool:
        """Whether the loss exceeds any gain and is large enough to matter."""
        return self.lookups < self.cost and self.cost > _LEAST_SHARE * self.step

    def __str__(self) -> str:
        return (
            "{}: a step takes {:.2f} ms, what runs ahead {:.2f} "
            "ms of it, and a stage costs about {:.2f} ms; leave do_async_embedding and "
            "do_smart_stage out (docs/when-it-does-not-pay.md)".format(
                _DOES_NOT_PAY, 1e3 * self.step, 1e3 * self.lookups, 1e3 * self.cost
            )
        )


class MeasuredStep:
    """A step of a stage that measures, over a few hundred batches, whether prefetching pays."""

    def __init__(
        self,
        step: Step,
        workers: Callable[[], int],
        stages: int,
        compile_empty: Callable[[], Step],
        graph: Any,
        begin_aside: Callable[[Callable[[], None]], Future[None]],
    ) -> None:
        """Measures from the first call on; called by one thread at a time.

        Args:
          step: Runs one batch, with its kernels in the calling thread.
          workers: Tells the number of workers that run steps of this stage.
          stages: Number of stages that each batch passes through.
          compile_empty: Makes a step of the session that does nothing.
          graph: The graph whose report gets the warning.
          begin_aside: Has another thread call what batches need not wait for.
        """
        self._step = step
        self._workers = workers
        self._stages = stages
        self._compile_empty = compile_empty
        self._graph = weakref.ref(graph)
        self._begin_aside = begin_aside
        self._concluding: Optional[Future[None]] = None
        self._calls = 0
        self._cpu_seconds = 0.0
        self._since = 0.0

    def __call__(self, **metadata: Any) -> None:
        """Runs the step."""
        if self._calls > _WARM_UP_STEPS + _MEASURED_STEPS:
            self._step(**metadata)
            if self._concluding is not None and self._concluding.done():
                concluded, self._concluding = self._concluding, None
                concluded.result()
            return
        before = time.thread_time()
        self._step(**metadata)
        self._note(time.thread_time() - before)

    def _note(self, cpu_seconds: float) -> None:
        self._calls += 1
        if self._calls == _WARM_UP_STEPS:
            self._since = time.perf_counter()
        elif self._calls > _WARM_UP_STEPS:
            self._cpu_seconds += cpu_seconds
        if self._calls == _WARM_UP_STEPS + _MEASURED_STEPS:
            self._calls += 1
            seconds = (time.perf_counter() - self._since) / _MEASURED_STEPS
            step_seconds = seconds / self._workers()
            if step_seconds <= _LONGEST_STEP_SECONDS:
                self._concluding = self._begin_aside(lambda: self._conclude(step_seconds))

    def _conclude(self, step_seconds: float) -> None:
        try:
            apart = _seconds_apart(self._compile_empty())
        except tf.errors.OpError:  # the session is ending
            return
        lookups = self._cpu_seconds / _MEASURED_STEPS
        payoff = Payoff(step_seconds, lookups, self._stages * apart)
        graph = self._graph()
        if payoff.is_loss and graph is not None:
            _tell(graph, str(payoff))


def _tell(graph: Any, loss: str) -> None:
    told = any(warning.startswith(_DOES_NOT_PAY) for warning in warnings_about(graph))
    if not told:
        warn_once(loss, graph)


def _seconds_apart(step: Step) -> float:
    """The median time that it takes to have another thread run a step."""
    begin, end = threading.Semaphore(0), threading.Semaphore(0)
    errors: List[tf.errors.OpError] = []

    def run_steps() -> None:
        for _ in range(_EMPTY_STEPS):
            begin.acquire()
            try:
                step()
            except tf.errors.OpError as error:
                errors.append(error)
            finally:
                end.release()

    threading.Thread(target=run_steps, name="graph_opt/payoff", daemon=True).start()
    times = []
    for _ in range(_EMPTY_STEPS):
        start = time.perf_counter()
        begin.release()
        end.acquire()
        times.append(time.perf_counter() - start)
    if errors:
        raise errors[0]
    return statistics.median(times)
