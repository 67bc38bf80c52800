"""Which setting a stage gets from what is measured at its buffer."""

from __future__ import annotations

import random
from typing import Callable, Sequence

import pytest

from graph_opt.ops.stage_spec import CAPACITY, THREADS
from graph_opt.runtime.tuning import (
    DECISION_WINDOWS,
    MOST,
    MOST_WINDOWS,
    Setting,
    Tuning,
    Window,
)

START = Setting(1, 1)
MEGABYTE = 1 << 20
Stage = Callable[[Setting], Window]


def tuning(
    tuned: Sequence[str] = (THREADS, CAPACITY), memory_bytes: int = 512 * MEGABYTE
) -> Tuning:
    return Tuning(tuned, START, START, memory_bytes)


def run(tuned: Tuning, stage: Stage, decisions: int = 40) -> Setting:
    for _ in range(decisions * (DECISION_WINDOWS + 1)):
        tuned.observe(stage(tuned.setting))
    return tuned.setting


def slow_source(batch_seconds: float, main_seconds: float, largest_bytes: int = 8) -> Stage:
    """Threads that each take so long for a batch, beside a main graph that takes its own time."""
    noise = random.Random(7)

    def window(now: Setting) -> Window:
        step = max(batch_seconds / now.threads, main_seconds)
        jitter = noise.uniform(0.97, 1.03)
        starved = 1 - main_seconds / step
        return Window(jitter / step, starved, now.threads - batch_seconds / step, largest_bytes)

    return window


@pytest.mark.parametrize("batch_seconds, threads", [(0.005, 1), (0.017, 2), (0.028, 3)])
def test_a_stage_gets_the_threads_that_keep_main_fed(batch_seconds: float, threads: int) -> None:
    tuned = tuning()
    assert run(tuned, slow_source(batch_seconds, 0.01)) == Setting(threads, 1)
    assert tuned.settled


def test_before_the_first_decision_it_says_that_there_was_none() -> None:
    assert str(tuning()) == "threads_num 1, capacity 1 so far, too few batches to choose by"


def test_threads_that_do_not_help_are_taken_back() -> None:
    serial = lambda now: Window(100.0, 0.8, 0.0)  # noqa: E731
    tuned = tuning()
    assert run(tuned, serial) == START
    assert "more threads did not pay" in str(tuned)


def test_threads_get_room_where_they_wait_for_each_other() -> None:
    def in_order(now: Setting) -> Window:
        working = min(now.threads, now.capacity, 2)
        return Window(100.0 * working, 1 - working / 4, idle=now.threads - working)

    assert run(tuning(), in_order) == Setting(2, 2)
    assert run(tuning((THREADS,)), in_order) == START


@pytest.mark.parametrize("gain, threads", [(1.0, 1), (1.15, 2)])
def test_a_decision_takes_as_many_windows_as_noise_asks_for(gain: float, threads: int) -> None:
    found = []
    for seed in range(50):
        noise = random.Random(seed)

        def noisy(now: Setting, noise: random.Random = noise) -> Window:
            rate = 100.0 * gain if now.threads > 1 else 100.0
            return Window(rate * noise.uniform(0.9, 1.1), 0.5, 0.0)

        tuned = tuning((THREADS,))
        for _ in range(MOST_WINDOWS * 4):
            tuned.observe(noisy(tuned.setting))
        found.append(tuned.setting.threads)
    assert found.count(threads) >= 45


def test_what_failed_is_tried_again_less_and_less_often() -> None:
    tuned, tried = tuning(), []
    for number in range(400 * DECISION_WINDOWS):
        before = tuned.setting
        tuned.observe(Window(100.0, 0.8, 0.0))
        if tuned.setting.threads > before.threads:
            tried.append(number)
    waits = [later - earlier for earlier, later in zip(tried, tried[1:])]
    assert len(tried) >= 4
    assert all(later > 1.5 * earlier for earlier, later in zip(waits, waits[1:]))


def test_a_buffer_that_is_both_empty_and_full_gets_room() -> None:
    def bursts(now: Setting) -> Window:
        starved = max(0.0, 0.4 - 0.1 * now.capacity)
        return Window(100 * (1 - starved), starved, 0.3)

    assert run(tuning(), bursts) == Setting(1, 4)


def test_a_stage_shrinks_once_main_is_slower() -> None:
    tuned = tuning()
    assert run(tuned, slow_source(0.028, 0.01)).threads == 3
    assert run(tuned, slow_source(0.005, 0.01)) == START


def test_a_window_that_main_spent_elsewhere_does_not_count() -> None:
    tuned, source = tuning(), slow_source(0.017, 0.01)
    run(tuned, source)
    for _ in range(20):
        for _ in range(DECISION_WINDOWS - 1):
            tuned.observe(source(tuned.setting))
        tuned.observe(Window(0.5, 0.0, 2.0))
    assert tuned.setting == Setting(2, 1)


def test_batches_never_take_more_than_the_memory() -> None:
    tuned = tuning(memory_bytes=5 * MEGABYTE)
    assert run(tuned, slow_source(0.1, 0.01, largest_bytes=MEGABYTE)) == Setting(4, 1)
    assert "autotune_memory_mb = 5" in str(tuned)
    tuned.observe(Window(50.0, 0.5, 0.0, 2 * MEGABYTE))
    assert tuned.setting == START
    tuned.observe(Window(50.0, 0.5, 0.0, 20 * MEGABYTE))
    assert tuned.setting == START


def test_threads_and_room_are_bounded() -> None:
    tuned = tuning()
    assert run(tuned, slow_source(1.0, 0.01)).threads == MOST
    assert "more than {}".format(MOST) in str(tuned)


def test_what_the_user_has_set_stays() -> None:
    assert run(tuning((CAPACITY,)), slow_source(0.1, 0.01)) == START
    fixed = Tuning((THREADS,), Setting(1, 3), Setting(1, 3), MEGABYTE)
    assert run(fixed, slow_source(0.017, 0.01)) == Setting(2, 3)
