"""Calls and bytes that a step of a worker costs.

A proxy counts all that passes between the tasks, in both directions: whatever runs ahead of a step
is part of some step. How far away servers are changes nothing about it.
"""

from __future__ import annotations

from typing import Iterable, List, Tuple

from tools.bench.records import Outcome, Record
from tools.bench.training.contenders import Contender
from tools.bench.training.contests import Contest, Scenario

_WARM_UP = 10
_STEPS = 50  # The few batches that are ahead at their end were ahead at their start, too.
_QUICK_STEPS = 4


def traffic_of(trainer: Contender, steps: int) -> Tuple[float, float]:
    """Calls and bytes of a step of a worker, on average."""
    trainer.run(_WARM_UP)
    before = trainer.cluster.passed()
    trainer.run(steps)
    after = trainer.cluster.passed()
    taken = steps * (1 + len(trainer.others))
    calls, size = ((late - early) / taken for early, late in zip(before, after))
    return calls, size


def traffic_outcome(
    contest: Contest, scenario: Scenario, contestants: Iterable[Contender], quick: bool = False
) -> Outcome:
    """Counts in the modes of a contest that are counted.

    Args:
        contest: which these are.
        scenario: what the contestants train, with a proxy between the tasks.
        contestants: that are open.
        quick: few steps.
    """
    records: List[Record] = []
    for contestant in contestants:
        if contestant.name not in contest.counted:
            continue
        found = traffic_of(contestant, _QUICK_STEPS if quick else _STEPS)
        params = {"batch": scenario.batch, "servers": scenario.servers}
        for figure, unit, value in zip(("calls_per_step", "bytes_per_step"), ("", "B"), found):
            of_mode = (figure, scenario.workload, contestant.name, params)
            records.append(Record(*of_mode, value, unit, runs=(value,)))
    return Outcome(tuple(records))
