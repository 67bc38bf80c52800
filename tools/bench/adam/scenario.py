"""One workload with Adam: stock, deferred and lazy, measured alternately."""

from __future__ import annotations

import contextlib
from typing import Iterator, List, Sequence

import graph_opt
from tools.bench.adam.figures import outcome_of
from tools.bench.adam.scenarios import Scenario
from tools.bench.adam.traffic import MemoryCopy, Traffic, rows_per_step
from tools.bench.cluster.loopback import start_clusters
from tools.bench.records import Outcome
from tools.bench.training.contenders import Contender, Setting, open_in
from tools.bench.training.sessions import ADAM_MODES, STOCK
from tools.bench.turns import TimedSchedule, run_in_timed_turns
from tools.bench.workloads.workload import Learning

LEARNING = Learning("adam", 0.001)


FULL = TimedSchedule(rounds=4, seconds=0.4)
QUICK = TimedSchedule(rounds=2, seconds=0.0)


def measure(scenario: Scenario, quick: bool = False, modes: Sequence[str] = ADAM_MODES) -> Outcome:
    """Trains in all modes alternately.

    Args:
        scenario: what and where.
        quick: small layers and few steps.
        modes: which of `ADAM_MODES`; figures that need others are left out.

    Raises:
        RuntimeError: graph_opt has not fused all updates, so that there is nothing to measure.
    """
    memory = MemoryCopy()
    bytes_per_s: List[float] = []
    rows = rows_per_step(scenario.model(quick))

    def before_turn(_: str, round_: int) -> None:
        if round_ == len(bytes_per_s):
            bytes_per_s.append(memory.bytes_per_s())

    with _open_contenders(scenario, quick, modes) as contenders:
        turns = run_in_timed_turns(contenders, QUICK if quick else FULL, before_turn)
    return outcome_of(scenario, turns, Traffic(rows, scenario.tables, bytes_per_s))


@contextlib.contextmanager
def _open_contenders(
    scenario: Scenario, quick: bool, modes: Sequence[str]
) -> Iterator[List[Contender]]:
    setting = Setting(
        scenario.model(quick), LEARNING, servers=scenario.servers, delay_ms=scenario.delay_ms or 0.0
    )
    with contextlib.ExitStack() as stack:
        contenders = []
        clusters = stack.enter_context(
            start_clusters(len(modes), setting.servers, setting.delay_ms)
        )
        for mode, cluster in zip(modes, clusters):
            contenders.append(stack.enter_context(open_in(setting, mode, cluster)))
            if mode != STOCK:
                _require_fused_updates(contenders[-1], scenario.tables.number)
        yield contenders


def _require_fused_updates(trainer: Contender, tables: int) -> None:
    assert trainer.training is not None
    report = graph_opt.report(trainer.training.graph)
    assert report is not None
    fused = sum(lookup.update in ("fused", "deferred") for lookup in report.fused_lookups)
    if fused != tables:
        raise RuntimeError("{} of {} updates are fused:\n{}".format(fused, tables, report))
