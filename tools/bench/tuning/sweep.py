"""One case: a sweep of fixed settings and the tuned one, in turns."""

from __future__ import annotations

import contextlib
import functools
import statistics
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence

from tools.bench.records import Goal, Outcome, Record
from tools.bench.tuning.cases import Run, Size, case
from tools.bench.turns import in_turns, ratios, seconds_per_call

TUNED = Size(-1, -1)
SWEEP = (Size(1, 1), Size(1, 4), Size(2, 1), Size(2, 4), Size(4, 4), Size(8, 8))
GOAL = Goal(">=", 0.95)


class Effort(NamedTuple):
    """How long a case takes.

    Attributes:
        sweep: the fixed settings.
        settle_seconds: how long the tuned training runs before it is measured.
        rounds: turns of each.
        seconds: of a turn.
        burn_in: steps before a turn, which use up what was read while others had theirs.
    """

    sweep: Sequence[Size]
    settle_seconds: float
    rounds: int
    seconds: float
    burn_in: int


FULL = Effort(SWEEP, 15.0, 4, 0.5, 20)
QUICK = Effort(SWEEP[:2], 0.2, 1, 0.1, 2)


def label(size: Size) -> str:
    """What a setting is called in tables."""
    return "tuned" if size == TUNED else "{} x {}".format(*size)


def measure(name: str, quick: bool) -> Outcome:
    """Measures a case.

    Args:
        name: of `cases.NAMES`.
        quick: tiny sizes; the figures mean nothing.
    """
    effort = QUICK if quick else FULL
    opened: Dict[Size, Run] = {}
    trained = case(name, quick)
    with contextlib.ExitStack() as stack:
        for size in (*effort.sweep, TUNED):
            opened[size] = stack.enter_context(trained.open(size))
        seconds_per_call(opened[TUNED].step, effort.settle_seconds)
        turns = in_turns(
            {
                label(size): functools.partial(_steps_per_second, run.step, effort)
                for size, run in opened.items()
            },
            effort.rounds,
        )
        metrics = opened[TUNED].metrics()[opened[TUNED].stage]
    return Outcome((*_rates(name, turns), *_chosen(name, metrics)))


def _steps_per_second(step: Callable[[], Any], effort: Effort) -> float:
    return 1.0 / seconds_per_call(step, effort.seconds, effort.burn_in)


def _rates(name: str, turns: Dict[str, List[float]]) -> Iterator[Record]:
    medians = {mode: statistics.median(rates) for mode, rates in turns.items()}
    for mode, rates in turns.items():
        yield Record("steps_per_s", name, mode, {}, medians[mode], "1/s", tuple(rates))
    tuned = label(TUNED)
    best = max((mode for mode in turns if mode != tuned), key=lambda mode: medians[mode])
    of_rounds = ratios(turns[tuned], turns[best])
    value = statistics.median(of_rounds)
    params = {"best": best}
    yield Record("ratio_to_best_fixed", name, tuned, params, value, "", tuple(of_rounds), GOAL)


def _chosen(name: str, metrics: Dict[str, int]) -> Iterator[Record]:
    for number in ("threads", "capacity"):
        value = float(metrics[number])
        yield Record(number, name, label(TUNED), {}, value, "", (value,))
