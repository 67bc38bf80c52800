"""The figures of one training scenario, from the turns of its four contestants."""

from __future__ import annotations

import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from examples.contenders import LOOKUPS_ALONE, MAIN_ALONE, Turn
from examples.sessions import ASYNC, MODES, STOCK
from tools.bench.machine import cores
from tools.bench.overlap import Seconds
from tools.bench.records import Absent, Goal, Outcome, Record, from_runs
from tools.bench.turns import ratios

CONTESTANTS = (STOCK, ASYNC, MAIN_ALONE, LOOKUPS_ALONE)

GOAL_EFFICIENCY = Goal(">=", 0.9)
NEVER_BELOW = Goal(">=", 0.97)
RATIO_GOALS = {("dlrm", 1.0): Goal(">=", 1.15), ("dlrm", 3.0): Goal(">=", 1.25)}


class Scenario(NamedTuple):
    """A workload, where its variables are, and how it is prefetched.

    Attributes:
        workload: a name of `workloads.WORKLOADS`.
        delay_ms: latency each way to the parameter server; None: all in one process.
        batch: rows a step.
        threads: threads that run lookups.
        capacity: batches held ready.
    """

    workload: str
    delay_ms: Optional[float] = None
    batch: int = 512
    threads: int = 1
    capacity: int = 2

    @property
    def servers(self) -> int:
        """Parameter servers."""
        return 0 if self.delay_ms is None else 1

    @property
    def params(self) -> Dict[str, Any]:
        """The scenario as params of a record; `delay_ms` is absent when local."""
        params: Dict[str, Any] = {
            "batch": self.batch,
            "threads": self.threads,
            "capacity": self.capacity,
        }
        return params if self.delay_ms is None else dict(params, delay_ms=self.delay_ms)

    def __str__(self) -> str:
        where = "local" if self.delay_ms is None else "server {:g} ms away".format(self.delay_ms)
        return "{}, {}".format(self.workload, where)

    @property
    def goal(self) -> Goal:
        """Of `ratio_to_stock`."""
        return RATIO_GOALS.get((self.workload, self.delay_ms or 0.0), NEVER_BELOW)


Turns = Dict[str, List[Turn]]


def outcome_of(scenario: Scenario, turns: Turns) -> Outcome:
    """All figures of a scenario.

    Args:
        scenario: what was measured.
        turns: the turns of each of `CONTESTANTS`, as many of each.
    """
    rounds = [_seconds(*each) for each in zip(*(turns[name] for name in CONTESTANTS))]
    records = _rates(scenario, turns, rounds)
    records.append(
        from_runs(
            "ratio_to_stock",
            scenario.workload,
            ASYNC,
            scenario.params,
            ratios([each.stock for each in rounds], [each.ours for each in rounds]),
            goal=scenario.goal,
        )
    )
    records.extend(_floors(scenario, rounds))
    records.extend(_waits(scenario, turns[ASYNC]))
    return Outcome(tuple(records)) + _efficiency(scenario, rounds)


def _seconds(stock: Turn, ours: Turn, main_alone: Turn, lookups_alone: Turn) -> Seconds:
    # The CPU time of a step is the least that a step was seen to do with.
    cpu_seconds = min(_cpu_seconds(stock), _cpu_seconds(ours))
    return Seconds(
        stock.seconds_per_step,
        ours.seconds_per_step,
        main_alone.seconds_per_step,
        lookups_alone.seconds_per_step,
        cpu_seconds / cores(),
    )


def _cpu_seconds(turn: Turn) -> float:
    """CPU seconds a step without the proxy: it stands for a network, which takes no CPU."""
    return (turn.cpu_seconds["worker"] + turn.cpu_seconds["ps"]) / turn.steps


def _typical(rounds: Sequence[Seconds]) -> Seconds:
    return Seconds(*(statistics.median(column) for column in zip(*rounds)))


def _rates(scenario: Scenario, turns: Turns, rounds: Sequence[Seconds]) -> List[Record]:
    best = 1.0 / _typical(rounds).floor
    records = []
    for mode in MODES:
        rates = [1.0 / turn.seconds_per_step for turn in turns[mode]]
        cpu_seconds = [_cpu_seconds(turn) for turn in turns[mode]]
        of_mode = (scenario.workload, mode, scenario.params)
        records.append(from_runs("steps_per_s", *of_mode, rates, "1/s", floor=best))
        records.append(from_runs("cpu_s_per_step", *of_mode, cpu_seconds, "s"))
    return records


def _floors(scenario: Scenario, rounds: Sequence[Seconds]) -> List[Record]:
    parts = {
        "main_alone_s_per_step": [each.main_alone for each in rounds],
        "lookups_alone_s_per_step": [each.lookups_alone for each in rounds],
        "floor_s_per_step": [each.floor for each in rounds],
    }
    return [
        from_runs(figure, scenario.workload, ASYNC, scenario.params, runs, "s")
        for figure, runs in parts.items()
    ]


def _waits(scenario: Scenario, turns: Sequence[Turn]) -> List[Record]:
    """How long main waited for a batch (take), and the lookups for room (put)."""
    prefetch = list(turns[0].buffers)[-1]  # stages come upstream first
    return [
        from_runs(
            side + "_wait_s_per_step",
            scenario.workload,
            ASYNC,
            scenario.params,
            [turn.buffers[prefetch][side + "_wait_micros"] / 1e6 / turn.steps for turn in turns],
            "s",
        )
        for side in ("take", "put")
    ]


def _efficiency(scenario: Scenario, rounds: Sequence[Seconds]) -> Outcome:
    figure = ("overlap_efficiency", scenario.workload, ASYNC, scenario.params)
    typical = _typical(rounds)
    if not typical.has_room:
        reason = "stock's {:.2f} ms a step are {:.2f} of the floor of {:.2f} ms: no room".format(
            1e3 * typical.stock, typical.stock / typical.floor, 1e3 * typical.floor
        )
        return Outcome((), (Absent(*figure, reason),))
    runs = [each.efficiency for each in rounds]
    return Outcome((from_runs(*figure, runs, goal=GOAL_EFFICIENCY),))
