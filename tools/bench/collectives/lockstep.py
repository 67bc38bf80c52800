"""Ranks that take their turns together: a step needs all of them."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.collectives.modes import AHEAD
from tools.bench.training.contenders import Contender
from tools.bench.training.measurement import Turns

LEAST_STEPS = 2
MOST_STEPS = 200
_SETTLING_SHARE = 5  # one untimed step for so many timed ones
_LOOK_SECONDS = 0.005
_CALM_SECONDS = 0.05

Tell = Callable[[str, int, int], Any]


class Schedule(NamedTuple):
    """How often and how long contenders run.

    Attributes:
        rounds: turns of each.
        seconds: about how long a turn takes on the first rank.
        steps: how many steps a turn has; None: as many as the seconds allow.
    """

    rounds: int
    seconds: float
    steps: Optional[int] = None


class Ranks:
    """All ranks of Horovod, which must be initialized."""

    def __init__(self) -> None:
        import horovod.tensorflow as hvd

        self.number: int = hvd.rank()
        self.size: int = hvd.size()
        graph = tf.Graph()
        with graph.as_default():
            self._given = tf.placeholder(tf.int64, [])
            self._said = hvd.broadcast(self._given, 0, name="what_the_first_rank_says")
        self._session = tf.Session(graph=graph)

    def first_says(self, number: int) -> int:
        """The number that the first rank gives, on all ranks; waits for all of them."""
        return int(self._session.run(self._said, {self._given: number}))


def run_together(
    contenders: Sequence[Contender], ranks: Ranks, schedule: Schedule, tell: Tell
) -> Turns:
    """Runs the contenders in turns on all ranks, after a warm-up of each.

    The order is turned round in every other round: see `training/timed_turns.py`.

    Args:
        contenders: the same on all ranks.
        ranks: all of them.
        schedule: how often and how long each has its turn.
        tell: told a contender, a turn, and how many there are, before each turn.

    Returns:
        The timed turns of each contender on this rank, by name.
    """
    total = len(contenders) * (schedule.rounds + 1)
    steps: Dict[str, int] = {}
    for number, contender in enumerate(contenders):
        tell(contender.name, number, total)
        steps[contender.name] = _warmed_up(contender, ranks, schedule)
    turns: Turns = {contender.name: [] for contender in contenders}
    for round_ in range(schedule.rounds):
        order = contenders if round_ % 2 == 0 else list(reversed(contenders))
        for place, contender in enumerate(order):
            tell(contender.name, len(contenders) * (round_ + 1) + place, total)
            settling = steps[contender.name] // _SETTLING_SHARE
            if settling:
                contender.run(settling)
            turns[contender.name].append(contender.run(steps[contender.name]))
            _come_to_rest(contender, ranks)
    return turns


def _warmed_up(contender: Contender, ranks: Ranks, schedule: Schedule) -> int:
    """Steps of a turn; the first steps also prepare the graph, and so tell nothing."""
    contender.run(1)
    if schedule.steps:
        contender.run(schedule.steps)
        _come_to_rest(contender, ranks)
        return schedule.steps
    fits = ranks.first_says(int(schedule.seconds / contender.run(1).seconds_per_step))
    if fits > LEAST_STEPS:
        timed = contender.run(min(fits, MOST_STEPS))
        fits = int(schedule.seconds / timed.seconds_per_step)
    _come_to_rest(contender, ranks)
    return min(max(ranks.first_says(fits), LEAST_STEPS), MOST_STEPS)


def _come_to_rest(contender: Contender, ranks: Ranks) -> None:
    """Waits until what runs ahead has filled its buffers on all ranks.

    Its messages would slow down the next contender, and meet those of its own under their names.
    """
    if contender.name in AHEAD:
        before: List[int] = []
        while True:
            now = [counters["put_count"] for counters in contender.counters().values()]
            if now == before:
                break
            before = now
            time.sleep(_LOOK_SECONDS if not before else _CALM_SECONDS)
    ranks.first_says(0)
