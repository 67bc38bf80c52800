"""If main waits, a step runs on whichever threads are faster; otherwise on the stage's own."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, Callable, List

import pytest

from graph_opt.compat import callables, tf
from graph_opt.runtime import adaptive_step
from graph_opt.runtime.adaptive_step import AdaptiveStep
from graph_opt.runtime.staged import staged
from tests.runtime.sources import drain, numbers, prefetching


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only steps advance, so that other load on the machine does not count."""
    monkeypatch.setattr(Steps, "now", 0.0)
    monkeypatch.setattr(adaptive_step, "time", SimpleNamespace(perf_counter=lambda: Steps.now))


class Steps:
    """Two ways to run a step, with the seconds that each takes; the second is soon compiled."""

    now = 0.0

    def __init__(self, own: float, shared: float, awaited: bool = True) -> None:
        self.ran: List[str] = []
        self.awaited = awaited
        self.compiling: List[Future[Callable[[], None]]] = []
        self.compiles_at_once = True
        self._shared = shared
        self.step = AdaptiveStep(lambda: self._run("own", own), self._compile, lambda: self.awaited)

    def _compile(self) -> Future[Callable[[], None]]:
        self.compiling.append(Future())
        if self.compiles_at_once:
            self.end_compiling()
        return self.compiling[-1]

    def end_compiling(self) -> None:
        self.compiling[-1].set_result(lambda: self._run("shared", self._shared))

    def _run(self, name: str, seconds: float) -> None:
        self.ran.append(name)
        Steps.now += seconds

    def last_of(self, calls: int) -> str:
        for _ in range(calls):
            self.step()
        return self.ran[-1]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "own, shared, kept, compiled",
    [(0.004, 0.001, "shared", 1), (0.002, 0.002, "own", 1), (0.0001, 0.0, "own", 0)],
)
def test_the_faster_threads_are_kept(own: float, shared: float, kept: str, compiled: int) -> None:
    steps = Steps(own, shared)
    assert steps.last_of(60) == kept
    assert len(steps.compiling) == compiled


@pytest.mark.usefixtures("clock")
def test_steps_go_on_in_their_thread_while_another_form_is_compiled() -> None:
    steps = Steps(0.004, 0.001)
    steps.compiles_at_once = False
    assert steps.last_of(60) == "own"
    assert len(steps.ran) == 60 and len(steps.compiling) == 1
    steps.end_compiling()
    steps.step()  # It finds it compiled.
    assert steps.last_of(1) == "shared"


@pytest.mark.usefixtures("clock")
def test_a_session_that_ends_while_it_compiles_keeps_the_thread() -> None:
    steps = Steps(0.004, 0.001)
    steps.compiles_at_once = False
    steps.last_of(30)
    steps.compiling[-1].set_exception(tf.errors.CancelledError(None, None, "closed"))
    assert steps.last_of(60) == "own"
    assert len(steps.compiling) == 1


@pytest.mark.usefixtures("clock")
def test_a_step_that_nobody_waits_for_stays_in_its_thread() -> None:
    steps = Steps(0.002, 0.0005)
    assert steps.last_of(40) == "shared"
    steps.awaited = False
    assert steps.last_of(1) == "own"
    steps.awaited = True
    assert steps.last_of(1) == "shared"
    assert Steps(0.002, 0.0005, awaited=False).last_of(60) == "own"


def test_batches_keep_their_order_when_the_threads_change() -> None:
    def slow(value: Any) -> Any:
        time.sleep(0.003)  # work of the stage that main waits for
        return value

    values = numbers(120)
    parts = [tf.py_func(slow, [values], tf.int64) for _ in range(2)]
    taken = staged(tf.add_n(parts) // 2, capacity=2)
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == list(range(120))


def test_batches_go_on_while_a_form_of_their_step_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taken_while_compiling = threading.Semaphore(0)
    compiled_in: List[str] = []
    compile_call = callables.compile_call

    def slow_compile(*arguments: Any, **named: Any) -> Any:
        thread = threading.current_thread().name
        if thread.endswith("/aside"):
            compiled_in.append(thread)
            for _ in range(10):
                assert taken_while_compiling.acquire(timeout=60)
        return compile_call(*arguments, **named)

    monkeypatch.setattr(callables, "compile_call", slow_compile)

    def slow(value: Any) -> Any:
        time.sleep(0.003)  # work of the stage that main waits for
        return value

    taken = staged(tf.py_func(slow, [numbers(400)], tf.int64), capacity=1)
    with tf.Session() as session, prefetching(session):
        while not compiled_in:
            session.run(taken)
        for _ in range(10):
            session.run(taken)
            taken_while_compiling.release()
