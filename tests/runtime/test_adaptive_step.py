"""If main waits, a step runs on whichever threads are faster; otherwise on the stage's own."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any, List, Set

import pytest

from graph_opt.compat import tf
from graph_opt.runtime import adaptive_step
from graph_opt.runtime.adaptive_step import AdaptiveStep
from graph_opt.runtime.staged import staged
from tests.runtime.sources import drain, folded_by_each, numbers, prefetching


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that only steps advance, so that other load on the machine does not count."""
    monkeypatch.setattr(Steps, "now", 0.0)
    monkeypatch.setattr(adaptive_step, "time", SimpleNamespace(perf_counter=lambda: Steps.now))


class Steps:
    """Two ways to run a step, with the seconds that each takes."""

    now = 0.0

    def __init__(self, own: float, shared: float, awaited: bool = True) -> None:
        self.ran: List[str] = []
        self.awaited = awaited
        self.step = AdaptiveStep(
            lambda: self._run("own", own), lambda: self._run("shared", shared), lambda: self.awaited
        )

    def _run(self, name: str, seconds: float) -> None:
        self.ran.append(name)
        Steps.now += seconds

    def last_of(self, calls: int) -> str:
        for _ in range(calls):
            self.step()
        return self.ran[-1]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    "own, shared, kept, tried",
    [(0.004, 0.001, "shared", True), (0.002, 0.002, "own", True), (0.0001, 0.0, "own", False)],
)
def test_the_faster_threads_are_kept(own: float, shared: float, kept: str, tried: bool) -> None:
    steps = Steps(own, shared)
    assert steps.last_of(60) == kept
    assert ("shared" in steps.ran) == tried


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


def test_trying_out_threads_compiles_nothing() -> None:
    compilations: List[None] = []
    threads: Set[int] = set()

    def slow(value: Any) -> Any:
        threads.add(threading.get_ident())
        time.sleep(0.003)  # work of the stage that main waits for
        return value

    work = tf.py_func(slow, [numbers(4000)], tf.int64)
    taken = staged(work + folded_by_each(compilations), capacity=1)
    with tf.Session() as session, prefetching(session):
        session.run(taken)
        compiled_at_first = len(compilations)
        assert compiled_at_first > 0
        while len(threads) < 2:  # It has tried the session's threads.
            session.run(taken)
    assert len(compilations) == compiled_at_first
