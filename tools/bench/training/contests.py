"""Which modes of training are measured against each other, where, and what they should reach.

    IN_PROCESS   stock, async, fused, both, exact  what running ahead and fusing gain, alone and
                                                   together, and where no update is missed
    ON_SERVER    the same, returned, pipelined     the same with a parameter server, near and far
    TWO_WORKERS  stock, both, returned, pipelined  what two workers gain with two servers
    OTHER_IDS    stock, fused, both, exact         what exact rows cost with more and less even ids

In each scenario all modes run alternately; with two workers, the second is a process that trains
when the first one does, and `steps_per_s` is that of both.

With one worker, modes have a floor: that of the mode whose lookups run ahead, against the mode that
does the same work without running ahead (see overlap.py).
"""

from __future__ import annotations

import itertools
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

DELAYS_MS = (0.0, 1.0, 3.0)
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
    """Modes that run alternately.

    Attributes:
        modes: of `sessions.MODES`, "stock" first.
        overlaps: modes that run ahead, with those that do not. Main alone and lookups alone are cut
            from the graph of the first that does; without overlaps they are not measured.
        scenarios: where it is measured.
        rounds: turns of each contestant.
        counted: modes whose calls and bytes are counted, too, where a proxy delays them.
        explains_floor: whether main's matrix products are timed by themselves, and what more cores
            would change is computed.
    """

    modes: Tuple[str, ...]
    overlaps: Tuple[Overlap, ...]
    scenarios: Tuple[Scenario, ...] = ()
    rounds: int = 3
    counted: Tuple[str, ...] = ()
    explains_floor: bool = False

    @property
    def groups(self) -> Tuple[Tuple[Scenario, ...], ...]:
        """The scenarios; together those that differ only in how much a proxy delays messages.

        All modes of such a group are opened once: that takes longer than their turns.
        """

        def key(scenario: Scenario) -> Scenario:
            return scenario._replace(delay_ms=1.0) if scenario.delay_ms else scenario

        return tuple(tuple(group) for _, group in itertools.groupby(self.scenarios, key))

    @property
    def contestants(self) -> Tuple[str, ...]:
        """All that run alternately: the modes, and the halves of one of them."""
        if not self.overlaps:
            return self.modes
        parts = dict.fromkeys([LOOKUPS_ALONE, *(overlap.main for overlap in self.overlaps)])
        products = (PRODUCTS_ALONE,) if self.explains_floor else ()
        return (*self.modes, *parts, *products)

    @property
    def cut(self) -> Optional[str]:
        """The mode from whose graph main alone and lookups alone are cut."""
        return self.overlaps[0].ahead if self.overlaps else None


def goal_of(mode: str, scenario: Scenario) -> Goal:
    """Of a mode's `ratio_to_stock`."""
    if scenario.workers > 1 or scenario.zipf is not None:
        return NEVER_BELOW
    return _GOALS.get((mode, scenario.workload, scenario.delay_ms), NEVER_BELOW)


_THREE_TIMES = Goal(">=", 3.0)
_GOALS: Dict[Tuple[str, str, Optional[float]], Goal] = {
    (ASYNC, "dlrm", 1.0): Goal(">=", 1.15),
    (ASYNC, "dlrm", 3.0): Goal(">=", 1.25),
    (BOTH, "dlrm", 1.0): Goal(">=", 1.35),
    (BOTH, "dlrm", 3.0): Goal(">=", 1.5),
    (RETURNED, "dlrm", 3.0): Goal(">=", 1.5),
    (PIPELINED, "dlrm", 1.0): Goal(">=", 1.6),
    (PIPELINED, "dlrm", 3.0): Goal(">=", 2.0),
    **{(BOTH, "wide", delay_ms): _THREE_TIMES for delay_ms in (None, *DELAYS_MS)},
}
_WORKLOADS = ("dlrm", "wide")
_ON_BOTH_SIZES = (STOCK, BOTH, RETURNED, PIPELINED)  # of clusters: one worker, and two
_AHEAD = (Overlap(BOTH, FUSED), Overlap(EXACT, FUSED))

IN_PROCESS = Contest(
    modes=(STOCK, ASYNC, FUSED, BOTH, EXACT),
    overlaps=_AHEAD,
    scenarios=tuple(Scenario(workload) for workload in _WORKLOADS),
    rounds=5,
    explains_floor=True,
)
ON_SERVER = Contest(
    modes=(STOCK, ASYNC, FUSED, BOTH, EXACT, RETURNED, PIPELINED),
    overlaps=(*_AHEAD, Overlap(PIPELINED, FUSED, COMPUTE_ALONE)),
    scenarios=tuple(
        Scenario(workload, delay_ms) for workload in _WORKLOADS for delay_ms in DELAYS_MS
    ),
    rounds=4,
    counted=_ON_BOTH_SIZES,
)
TWO_WORKERS = Contest(
    modes=_ON_BOTH_SIZES,
    overlaps=(),
    scenarios=tuple(Scenario(workload, 1.0, workers=2) for workload in _WORKLOADS),
    counted=_ON_BOTH_SIZES,
)
# Uniform ids, and very uneven ones: the most frequent is 38 % of those of a column.
OTHER_IDS = Contest(
    modes=(STOCK, FUSED, BOTH, EXACT),
    overlaps=_AHEAD,
    scenarios=tuple(Scenario("dlrm", zipf=zipf) for zipf in (0.0, 1.5)),
)
CONTESTS = (IN_PROCESS, ON_SERVER, TWO_WORKERS, OTHER_IDS)
