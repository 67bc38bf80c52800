"""Contestants take turns; rounds, warm-up and windows are as asked for."""

from __future__ import annotations

from typing import List

import pytest

from tools.bench.turns import LEAST_STEPS, in_turns, ratios, seconds_per_call


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
    assert len(calls) == 5 + LEAST_STEPS
    assert seconds > 0.0
