"""Which modes of training are measured against each other, where, and what they should reach.

    async   stock, async                  what running ahead gains
    train   stock, async, fused, both     what fusing gains, alone and together with running ahead

Both have a floor: of the mode whose lookups run ahead, against the mode that does the same work
without running ahead (see overlap.py).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from tools.bench.records import Goal
from tools.bench.training.contenders import LOOKUPS_ALONE, MAIN_ALONE
from tools.bench.training.sessions import ASYNC, BOTH, FUSED, STOCK

DELAYS_MS: Tuple[Optional[float], ...] = (None, 0.0, 1.0, 3.0)
NEVER_BELOW = Goal(">=", 0.97)


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


SCENARIOS = tuple(
    Scenario(workload, delay_ms) for workload in ("dlrm", "wide") for delay_ms in DELAYS_MS
)


class Contest(NamedTuple):
    """The modes of one benchmark.

    Attributes:
        name: of the benchmark.
        modes: of `sessions.MODES`, "stock" first.
        ahead: the mode whose lookups run ahead; main alone and lookups alone are cut from its
            graph.
        in_line: the mode that does the same work without running ahead.
        ratio_goals: of `ratio_to_stock` by mode, workload and delay; elsewhere `NEVER_BELOW`.
        efficiency_goal: of `overlap_efficiency`, if there is one.
        rounds: turns of each contestant.
        quick_scenario: what a quick run tries.
    """

    name: str
    modes: Tuple[str, ...]
    ahead: str
    in_line: str
    ratio_goals: Dict[Tuple[str, str, Optional[float]], Goal]
    efficiency_goal: Optional[Goal] = None
    rounds: int = 6
    quick_scenario: Scenario = Scenario("wide")

    @property
    def contestants(self) -> Tuple[str, ...]:
        """All that run alternately: the modes, and the halves of one of them."""
        return (*self.modes, MAIN_ALONE, LOOKUPS_ALONE)

    def goal(self, mode: str, scenario: Scenario) -> Goal:
        """Of a mode's `ratio_to_stock`."""
        return self.ratio_goals.get((mode, scenario.workload, scenario.delay_ms), NEVER_BELOW)


ASYNC_CONTEST = Contest(
    name="async",
    modes=(STOCK, ASYNC),
    ahead=ASYNC,
    in_line=STOCK,
    ratio_goals={
        (ASYNC, "dlrm", 1.0): Goal(">=", 1.15),
        (ASYNC, "dlrm", 3.0): Goal(">=", 1.25),
    },
    efficiency_goal=Goal(">=", 0.9),
)

_THREE_TIMES = Goal(">=", 3.0)
TRAIN_CONTEST = Contest(
    name="train",
    modes=(STOCK, ASYNC, FUSED, BOTH),
    ahead=BOTH,
    in_line=FUSED,
    ratio_goals={
        (BOTH, "dlrm", 1.0): Goal(">=", 1.3),
        **{(BOTH, "wide", delay_ms): _THREE_TIMES for delay_ms in DELAYS_MS},
    },
    rounds=5,
)

CONTESTS = {contest.name: contest for contest in (ASYNC_CONTEST, TRAIN_CONTEST)}
