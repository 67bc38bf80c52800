"""Contestants measured alternately, so that a machine that drifts drifts for all of them.

    warm-up: A B C    round 1: A B C    round 2: A B C, or C B A    ...

Whoever is not measured is idle, but open: what it holds (sessions, filled buffers) stays. Where the
order swaps, whatever one contestant leaves behind for the next (cold caches, threads that come to
rest) meets each of its neighbours, and no contestant is always the first.
"""

from __future__ import annotations

import functools
import time
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, TypeVar

import numpy as np

from tools.bench.foreign_load import ATTEMPTS, quiet_round
from tools.bench.training.contenders import Contender, Turn, Turns

Measured = TypeVar("Measured")
BeforeTurn = Callable[[str, int], Any]

LEAST_CALLS = 3
LEAST_STEPS = 2
MOST_STEPS = 200
_SETTLING_SHARE = 5  # one untimed step for so many timed ones


class Schedule(NamedTuple):
    """How often and how long contenders run, all of them the same number of steps.

    Attributes:
      rounds: turns of each contender.
      steps: timed steps of a turn.
      warm_up: untimed steps of each contender before the first round.
      settle: untimed steps before each turn: they use up what was prefetched while the others
        had their turns, and let the threads of the one before come to rest.
    """

    rounds: int = 5
    steps: int = 100
    warm_up: int = 30
    settle: int = 10


class TimedSchedule(NamedTuple):
    """How often and how long contenders of very different speed run.

    Attributes:
      rounds: turns of each contender.
      seconds: about how long a turn takes; one of a slow contender takes two steps.
      steps: how many steps a turn has; None: as many as the seconds allow.
    """

    rounds: int
    seconds: float
    steps: Optional[int] = None


def in_turns(
    contestants: Mapping[str, Callable[[], Measured]],
    rounds: int,
    warm_up: int = 1,
    swaps: bool = False,
    before_turn: BeforeTurn = lambda label, round_: None,
    agreed: Callable[[int], int] = int,
    attempts: int = ATTEMPTS,
) -> Dict[str, List[Measured]]:
    """Calls each contestant once in each round, again if other processes used the machine.

    Args:
        contestants: label to a function that measures it once.
        rounds: measured rounds, >= 1.
        warm_up: rounds before them whose results are dropped.
        swaps: whether every other round is in the opposite order.
        before_turn: told the label and the number of the round before each call.
        agreed: what all processes that take part make of a number of one of them.
        attempts: how often a round may run until no other process uses the machine.

    Returns:
        label to what its measured rounds returned.

    Raises:
        BusyMachineError: where `foreign_load.watched` refuses figures of a busy machine, no attempt
            at a round was quiet.

    Example:
        >>> in_turns({"stock": stock.steps_per_s, "async": ours.steps_per_s}, rounds=5)
    """
    if rounds < 1:
        raise ValueError("need at least one round, got {}".format(rounds))

    def measured(number: int) -> Dict[str, Measured]:
        labels = list(contestants)
        found = {}
        for label in reversed(labels) if swaps and number % 2 else labels:
            before_turn(label, number)
            found[label] = contestants[label]()
        return found

    for number in range(-warm_up, 0):
        measured(number)
    taken = [
        quiet_round(functools.partial(measured, number), agreed, attempts)
        for number in range(rounds)
    ]
    return {label: [found[label] for found in taken] for label in contestants}


def run_in_turns(
    contenders: Sequence[Contender],
    schedule: Schedule,
    before_turn: BeforeTurn = lambda name, round_: None,
) -> Turns:
    """Runs the contenders A B A B ..., after a warm-up of each.

    Args:
      contenders: open contenders.
      schedule: how often and how long. Without rounds there is nothing but the warm-up.
      before_turn: told the contender's name and the round before each turn.

    Returns:
      The timed turns of each contender, by name.
    """
    for contender in contenders:
        if schedule.warm_up:
            contender.run(schedule.warm_up)
    turns = {
        contender.name: functools.partial(_turn, contender, schedule.steps, schedule.settle)
        for contender in contenders
    }
    if not schedule.rounds:
        return {}
    return in_turns(turns, schedule.rounds, warm_up=0, before_turn=before_turn)


def run_in_timed_turns(
    contenders: Sequence[Contender],
    schedule: TimedSchedule,
    before_turn: BeforeTurn = lambda name, round_: None,
    agreed: Callable[[int], int] = int,
    rest: Callable[[Contender], Any] = lambda contender: None,
) -> Turns:
    """Runs the contenders A B B A ..., after a warm-up of each.

    Args:
        contenders: open contenders.
        schedule: how often and how long.
        before_turn: told the contender's name and the round before each turn, -1 in the warm-up.
        agreed: what all processes that take part make of a number of one of them.
        rest: called after each turn.

    Returns:
        The timed turns of each contender, by name.
    """
    turns: Dict[str, Callable[[], Turn]] = {}
    for contender in contenders:
        before_turn(contender.name, -1)
        steps = _warmed_up(contender, schedule, agreed)
        rest(contender)
        turns[contender.name] = functools.partial(
            _turn, contender, steps, steps // _SETTLING_SHARE, rest
        )
    return in_turns(turns, schedule.rounds, 0, True, before_turn, agreed)


def _turn(
    contender: Contender,
    steps: int,
    settle: int,
    rest: Callable[[Contender], Any] = lambda contender: None,
) -> Turn:
    if settle:
        contender.run(settle)
    turn = contender.run(steps)
    rest(contender)
    return turn


def _warmed_up(contender: Contender, schedule: TimedSchedule, agreed: Callable[[int], int]) -> int:
    """Steps of a turn; the first steps also prepare the graph, and so tell nothing."""
    contender.run(1)
    if schedule.steps:
        contender.run(schedule.steps)
        return schedule.steps
    fits = agreed(int(schedule.seconds / contender.run(1).seconds_per_step))
    if fits > LEAST_STEPS:
        timed = contender.run(min(fits, MOST_STEPS))
        fits = agreed(int(schedule.seconds / timed.seconds_per_step))
    return min(max(fits, LEAST_STEPS), MOST_STEPS)


def ratios(numerators: Sequence[float], denominators: Sequence[float]) -> List[float]:
    """Quotient of each round."""
    return [above / below for above, below in zip(numerators, denominators)]


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """The power of sizes with which times grow, by least squares of logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope)


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
    while calls < LEAST_CALLS or now - start < seconds:
        call()
        calls += 1
        now = time.perf_counter()
    return (now - start) / calls
