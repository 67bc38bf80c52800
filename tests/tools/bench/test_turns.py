"""Contestants take turns; rounds, warm-up and windows are as asked for."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest

from tools.bench.training.contenders import Turn
from tools.bench.turns import (
    LEAST_CALLS,
    LEAST_STEPS,
    MOST_STEPS,
    TimedSchedule,
    in_turns,
    ratios,
    run_in_timed_turns,
    seconds_per_call,
)


def test_contestants_take_turns_and_the_warm_up_is_dropped() -> None:
    calls: List[str] = []

    def contestant(label: str) -> int:
        calls.append(label)
        return len(calls)

    results = in_turns({"a": lambda: contestant("a"), "b": lambda: contestant("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert results == {"a": [3, 5], "b": [4, 6]}


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one round, got 0"):
        in_turns({"a": lambda: 1.0}, rounds=0)


def test_ratios_are_those_of_each_round() -> None:
    assert ratios([4.0, 9.0], [2.0, 3.0]) == [2.0, 3.0]


def test_a_window_has_its_burn_in_and_three_calls_at_least() -> None:
    calls: List[None] = []
    seconds = seconds_per_call(lambda: calls.append(None), seconds=0.0, burn_in=5)
    assert len(calls) == 5 + LEAST_CALLS
    assert seconds > 0.0


class Contender:
    """Takes so long for each step, and remembers the runs."""

    def __init__(self, name: str, seconds: float, runs: List[Tuple[str, int]]) -> None:
        self.name = name
        self._seconds = seconds
        self._runs = runs

    def run(self, steps: int) -> Turn:
        self._runs.append((self.name, steps))
        return Turn(steps, steps * self._seconds, {}, [], {})


def turns_of(seconds: List[float], rounds: int) -> List[Tuple[str, int]]:
    """What contenders "a", "b", ... run after their warm-up."""
    runs: List[Tuple[str, int]] = []
    contenders: List[Any] = [Contender(name, each, runs) for name, each in zip("abc", seconds)]

    def before_turn(name: str, round_: int) -> None:
        if (name, round_) == ("a", 0):
            runs.append(("start", 0))

    turns = run_in_timed_turns(contenders, TimedSchedule(rounds, 1.0), before_turn)
    assert [len(each) for each in turns.values()] == [rounds] * len(seconds)
    return runs[runs.index(("start", 0)) + 1 :]


def test_a_turn_takes_the_time_asked_for_and_is_settled_before() -> None:
    assert turns_of([0.1, 0.05], rounds=1) == [
        ("a", 2), ("a", 10), ("b", 4), ("b", 20),
    ]  # fmt: skip


def test_a_slow_contender_takes_a_few_steps_and_a_fast_one_not_too_many() -> None:
    taken = turns_of([5.0, 1e-6], rounds=1)
    assert ("a", LEAST_STEPS) in taken and ("b", MOST_STEPS) in taken


def test_the_order_swaps_with_each_round() -> None:
    names = [name for name, steps in turns_of([0.25, 0.25, 0.25], rounds=3)]
    assert "".join(name[0] for name in names) == "abc" + "cba" + "abc"
