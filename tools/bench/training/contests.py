"""Which modes of training are measured against each other, where, and what they should reach.

    train    stock, async, fused, both    what running ahead and fusing gain, alone and together
    cluster  the same, and two pipelined  what all gain with parameter servers, near and far
    exact    stock, fused, both, exact    what running ahead gains where no update is missed

In each scenario all modes run alternately; with two workers, the second is a process that trains
when the first one does, and `steps_per_s` is that of both.

All have a floor: of the mode whose lookups run ahead, against the mode that does the same work
without running ahead (see overlap.py).
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Tuple

from tools.bench.records import Goal
from tools.bench.training.contenders import (
    COMPUTE_ALONE,
    LOOKUPS_ALONE,
    MAIN_ALONE,
    PRODUCTS_ALONE,
    Setting,
)
from tools.bench.training.sessions import (
    ASYNC,
    BOTH,
    EXACT,
    FUSED,
    PIPELINED,
    RETURNED,
    STOCK,
    Prefetching,
    SessionOptions,
)
from tools.bench.workloads.measured import WORKLOADS

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
        workers: they train together; with parameter servers there are as many of these.
        zipf: how uneven ids are, 0 for uniform ones; None: the workload's own 1.1.
    """

    workload: str
    delay_ms: Optional[float] = None
    batch: int = 512
    threads: int = 1
    capacity: int = 2
    workers: int = 1
    zipf: Optional[float] = None

    @property
    def servers(self) -> int:
        """Parameter servers."""
        return 0 if self.delay_ms is None else self.workers

    @property
    def params(self) -> Dict[str, Any]:
        """The scenario as params of a record; `delay_ms` is absent when local."""
        params: Dict[str, Any] = {
            "batch": self.batch,
            "threads": self.threads,
            "capacity": self.capacity,
        }
        if self.workers > 1:
            params["workers"] = self.workers
        if self.zipf is not None:
            params["zipf"] = self.zipf
        return params if self.delay_ms is None else dict(params, delay_ms=self.delay_ms)

    def setting(self, quick: bool = False) -> Setting:
        """The model at the size that is measured, and where it is trained; `quick`: a tiny one."""
        return Setting(
            WORKLOADS[self.workload](self.batch, quick, self.zipf),
            session=SessionOptions(prefetching=Prefetching(self.threads, self.capacity)),
            servers=self.servers,
            delay_ms=self.delay_ms or 0.0,
        )

    def __str__(self) -> str:
        if self.delay_ms is None:
            ids = "" if self.zipf is None else ", ids by Zipf {:g}".format(self.zipf)
            return "{}, local{}".format(self.workload, ids)
        tasks = "{0} servers and {0} workers".format(self.workers)
        away = "{:g} ms away".format(self.delay_ms)
        return "{}, {} {}".format(self.workload, tasks if self.workers > 1 else "server", away)


SCENARIOS = tuple(
    Scenario(workload, delay_ms) for workload in ("dlrm", "wide") for delay_ms in DELAYS_MS
)


CLUSTERS = tuple(
    Scenario(workload, delay_ms, workers=workers)
    for workers in (1, 2)
    for workload in ("dlrm", "wide")
    for delay_ms in DELAYS_MS
    if delay_ms is not None
)

# Uniform ids, and very uneven ones: the most frequent is 38 % of those of a column.
EXACT_SCENARIOS = SCENARIOS + tuple(
    Scenario(workload, zipf=zipf) for workload in ("dlrm", "wide") for zipf in (0.0, 1.5)
)


class Overlap(NamedTuple):
    """Two modes that do the same work, of which one runs parts of it ahead.

    Attributes:
        ahead: the mode that does.
        in_line: the mode that does not.
        main: what the first leaves in its step, alone.
    """

    ahead: str
    in_line: str
    main: str = MAIN_ALONE


class Contest(NamedTuple):
    """The modes of one benchmark.

    Attributes:
        name: of the benchmark.
        modes: of `sessions.MODES`, "stock" first.
        overlaps: modes that run ahead, with those that do not. Main alone and lookups alone are cut
            from the graph of the first that does.
        ratio_goals: of `ratio_to_stock` by mode, workload and delay; elsewhere `NEVER_BELOW`.
        rounds: turns of each contestant.
        scenarios: where it is measured.
        quick_scenario: what a quick run tries.
        counts_traffic: whether calls and bytes of a step are counted, too, with a near server.
        explains_floor: whether main's matrix products are timed by themselves, and what more cores
            would change is computed.
    """

    name: str
    modes: Tuple[str, ...]
    overlaps: Tuple[Overlap, ...]
    ratio_goals: Dict[Tuple[str, str, Optional[float]], Goal]
    rounds: int = 6
    scenarios: Tuple[Scenario, ...] = SCENARIOS
    quick_scenario: Scenario = Scenario("wide")
    counts_traffic: bool = False
    explains_floor: bool = False

    @property
    def contestants(self) -> Tuple[str, ...]:
        """All that run alternately: the modes, and the halves of one of them."""
        parts = dict.fromkeys([LOOKUPS_ALONE, *(overlap.main for overlap in self.overlaps)])
        products = (PRODUCTS_ALONE,) if self.explains_floor else ()
        return (*self.modes, *parts, *products)

    @property
    def cut(self) -> str:
        """The mode from whose graph main alone and lookups alone are cut."""
        return self.overlaps[0].ahead

    def goal(self, mode: str, scenario: Scenario) -> Goal:
        """Of a mode's `ratio_to_stock`."""
        if scenario.workers > 1:
            return NEVER_BELOW
        return self.ratio_goals.get((mode, scenario.workload, scenario.delay_ms), NEVER_BELOW)


_THREE_TIMES = Goal(">=", 3.0)
TRAIN_CONTEST = Contest(
    name="train",
    modes=(STOCK, ASYNC, FUSED, BOTH),
    overlaps=(Overlap(BOTH, FUSED),),
    ratio_goals={
        (ASYNC, "dlrm", 1.0): Goal(">=", 1.15),
        (ASYNC, "dlrm", 3.0): Goal(">=", 1.25),
        (BOTH, "dlrm", 1.0): Goal(">=", 1.3),
        **{(BOTH, "wide", delay_ms): _THREE_TIMES for delay_ms in DELAYS_MS},
    },
    rounds=5,
    explains_floor=True,
)

CLUSTER_CONTEST = Contest(
    name="cluster",
    modes=(STOCK, ASYNC, FUSED, BOTH, RETURNED, PIPELINED),
    overlaps=(Overlap(BOTH, FUSED), Overlap(PIPELINED, FUSED, COMPUTE_ALONE)),
    ratio_goals={
        (BOTH, "dlrm", 1.0): Goal(">=", 1.35),
        (PIPELINED, "dlrm", 1.0): Goal(">=", 1.6),
        (BOTH, "dlrm", 3.0): Goal(">=", 1.5),
        (PIPELINED, "dlrm", 3.0): Goal(">=", 2.0),
        (RETURNED, "dlrm", 3.0): Goal(">=", 1.5),
        (BOTH, "wide", 0.0): _THREE_TIMES,
        (BOTH, "wide", 1.0): _THREE_TIMES,
    },
    rounds=3,
    scenarios=CLUSTERS,
    quick_scenario=Scenario("wide", 0.0, workers=2),
    counts_traffic=True,
)

EXACT_CONTEST = Contest(
    name="exact",
    modes=(STOCK, FUSED, BOTH, EXACT),
    overlaps=(Overlap(BOTH, FUSED), Overlap(EXACT, FUSED)),
    ratio_goals={},
    rounds=3,
    scenarios=EXACT_SCENARIOS,
    quick_scenario=Scenario("wide", 0.0),
    counts_traffic=True,
)

CONTESTS = {contest.name: contest for contest in (TRAIN_CONTEST, CLUSTER_CONTEST, EXACT_CONTEST)}
