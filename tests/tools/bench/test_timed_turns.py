"""Contenders of different speed take turns of about the same time, in an order that swaps."""

from __future__ import annotations

from typing import Any, List, Tuple

from tools.bench.training.contenders import Turn
from tools.bench.training.timed_turns import LEAST_STEPS, MOST_STEPS, run_in_timed_turns


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
    turns = run_in_timed_turns(contenders, rounds, 1.0, lambda: runs.append(("round", 0)))
    assert [len(each) for each in turns.values()] == [rounds] * len(seconds)
    return runs[runs.index(("round", 0)) :]


def test_a_turn_takes_the_time_asked_for_and_is_settled_before() -> None:
    assert turns_of([0.1, 0.05], rounds=1) == [
        ("round", 0), ("a", 2), ("a", 10), ("b", 4), ("b", 20),
    ]  # fmt: skip


def test_a_slow_contender_takes_a_few_steps_and_a_fast_one_not_too_many() -> None:
    taken = turns_of([5.0, 1e-6], rounds=1)
    assert ("a", LEAST_STEPS) in taken and ("b", MOST_STEPS) in taken


def test_the_order_swaps_with_each_round() -> None:
    names = [name for name, steps in turns_of([0.25, 0.25, 0.25], rounds=3)]
    assert "".join(name[0] for name in names) == "rabc" + "rcba" + "rabc"
