"""Contestants measured alternately, so that a machine that drifts drifts for all of them.

    warm-up: A B    round 1: A B    round 2: A B    ...

Whoever is not measured is idle, but open: what it holds (sessions, filled buffers) stays.
"""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Mapping, Sequence, TypeVar

Measured = TypeVar("Measured")

LEAST_STEPS = 3


def in_turns(
    contestants: Mapping[str, Callable[[], Measured]], rounds: int, warm_up: int = 1
) -> Dict[str, List[Measured]]:
    """Calls each contestant once in each round, in their order.

    Args:
        contestants: label to a function that measures it once.
        rounds: measured rounds, >= 1.
        warm_up: rounds before them whose results are dropped.

    Returns:
        label to what its measured rounds returned.

    Example:
        >>> in_turns({"stock": stock.steps_per_s, "async": ours.steps_per_s}, rounds=5)
    """
    if rounds < 1:
        raise ValueError("need at least one round, got {}".format(rounds))
    results: Dict[str, List[Measured]] = {label: [] for label in contestants}
    for number in range(-warm_up, rounds):
        for label, measure in contestants.items():
            measured = measure()
            if number >= 0:
                results[label].append(measured)
    return results


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> List[float]:
    """Quotient of each round."""
    return [above / below for above, below in zip(numerators, denominators)]


def seconds_per_call(call: Callable[[], object], seconds: float, burn_in: int = 0) -> float:
    """Mean time of a call over a window.

    Args:
        call: what is measured.
        seconds: length of the window; it ends with the first call after that, and has at least
            three.
        burn_in: calls before the window. They empty what was filled while nobody called, so that
            the window sees the flow and not the stock.
    """
    for _ in range(burn_in):
        call()
    calls = 0
    start = now = time.perf_counter()
    while calls < LEAST_STEPS or now - start < seconds:
        call()
        calls += 1
        now = time.perf_counter()
    return (now - start) / calls
