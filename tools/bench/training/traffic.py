"""Calls and bytes that a step of a worker costs.

A proxy without a delay counts all that passes between the tasks, in both directions: whatever runs
ahead of a step is part of some step. How far away servers are changes nothing about it.
"""

from __future__ import annotations

from typing import List, Tuple

from tools.bench.cluster.loopback import Cluster
from tools.bench.records import Outcome, Record
from tools.bench.training.contenders import Setting, open_alone
from tools.bench.training.contests import Contest, Scenario

_WARM_UP = 10
_STEPS = 50  # The few batches that are ahead at their end were ahead at their start, too.
_QUICK_STEPS = 4


def traffic_of(mode: str, setting: Setting, steps: int) -> Tuple[float, float]:
    """Calls and bytes of a step, on average."""
    with open_alone(setting, mode, counts=True) as trainer:
        trainer.run(_WARM_UP)
        before = _so_far(trainer.cluster)
        trainer.run(steps)
        after = _so_far(trainer.cluster)
    calls, size = ((late - early) / steps for early, late in zip(before, after))
    return calls, size


def _so_far(cluster: Cluster) -> List[int]:
    (proxy,) = cluster.proxies
    proxy.tell("")
    return [int(number) for number in proxy.ready_line().split()]


def measure(contest: Contest, scenario: Scenario, quick: bool = False) -> Outcome:
    """Counts in some modes of a contest; `quick` does so with a tiny model."""
    setting = scenario.setting(quick)
    records: List[Record] = []
    for mode in contest.counted:
        found = traffic_of(mode, setting, _QUICK_STEPS if quick else _STEPS)
        params = {"batch": scenario.batch, "servers": scenario.servers}
        for figure, unit, value in zip(("calls_per_step", "bytes_per_step"), ("", "B"), found):
            of_mode = (figure, scenario.workload, mode, params)
            records.append(Record(*of_mode, value, unit, runs=(value,)))
    return Outcome(tuple(records))
