"""The figures of training with Adam, from the turns of its modes."""

from __future__ import annotations

import statistics
from typing import Dict, List, Optional, Sequence, Tuple

from tools.bench.adam.scenarios import GROWTH, Scenario
from tools.bench.adam.traffic import Traffic
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.training.contenders import Turns
from tools.bench.training.sessions import ADAM_MODES, DEFERRED, LAZY, STOCK
from tools.bench.turns import exponent, ratios

MACHINE = "machine"
RATE = "steps_per_s"


def outcome_of(scenario: Scenario, turns: Turns, traffic: Traffic) -> Outcome:
    """All figures of a scenario, each with the floor that memory sets it.

    Args:
        scenario: where they were measured.
        turns: the turns of each mode, as many of each; modes may be missing.
        traffic: what the floors follow from.
    """
    params, workload = scenario.params, scenario.workload
    seconds = {mode: [turn.seconds_per_step for turn in taken] for mode, taken in turns.items()}
    records: List[Record] = []
    for mode, runs in seconds.items():
        rates = [1.0 / each for each in runs]
        best = 1.0 / traffic.seconds(mode)
        records.append(from_runs(RATE, workload, mode, params, rates, "1/s", floor=best))
    records += _ratios_to_stock(scenario, seconds, traffic)
    if DEFERRED in seconds and LAZY in seconds:
        # They must move the same bytes, so the best is to be as fast.
        quotients = ratios(seconds[LAZY], seconds[DEFERRED])
        goal = scenario.ratio_to_lazy
        records.append(
            from_runs("ratio_to_lazy", workload, DEFERRED, params, quotients, goal=goal, floor=1.0)
        )
    for mode in seconds:
        moved = [traffic.bytes_per_step(mode)]
        records.append(from_runs("bytes_per_step", workload, mode, params, moved, "bytes"))
    rows, speeds = [traffic.rows], traffic.bytes_per_s
    records.append(from_runs("rows_per_step", workload, MACHINE, params, rows))
    records.append(from_runs("memory_bytes_per_s", workload, MACHINE, params, speeds, "1/s"))
    return Outcome(tuple(records))


def growth(scenarios: Sequence[Scenario], outcome: Outcome) -> Outcome:
    """How a step's time grows with the rows of the tables: the power of the rows.

    Args:
        scenarios: those that were measured; the ones that differ in rows alone belong together.
        outcome: their figures.
    """
    series: Dict[Tuple[str, Optional[float]], List[Scenario]] = {}
    for scenario in scenarios:
        series.setdefault((scenario.workload, scenario.delay_ms), []).append(scenario)
    found = [_exponent(alike, mode, outcome) for alike in series.values() for mode in ADAM_MODES]
    return Outcome(tuple(record for record in found if record is not None))


def _ratios_to_stock(
    scenario: Scenario, seconds: Dict[str, List[float]], traffic: Traffic
) -> List[Record]:
    if STOCK not in seconds:
        return []
    stock = statistics.median(seconds[STOCK])
    return [
        from_runs(
            "ratio_to_stock",
            scenario.workload,
            mode,
            scenario.params,
            ratios(seconds[STOCK], runs),
            goal=scenario.ratio_to_stock if mode == DEFERRED else None,
            floor=stock / traffic.seconds(mode),
        )
        for mode, runs in seconds.items()
        if mode != STOCK
    ]


def _exponent(alike: Sequence[Scenario], mode: str, outcome: Outcome) -> Optional[Record]:
    measured = [(scenario.tables.rows, _rates(scenario, mode, outcome)) for scenario in alike]
    found = [(rows, record) for rows, record in measured if record is not None]
    if len(found) < 2:
        return None
    rows = [each for each, _ in found]
    runs = [-exponent(rows, rates) for rates in zip(*(record.runs for _, record in found))]
    floor = -exponent(rows, [record.floor or 1.0 for _, record in found])
    params = dict(least_rows=min(rows), most_rows=max(rows), **alike[0].params_but_rows)
    goal: Optional[Goal] = GROWTH if mode == DEFERRED else None
    workload = alike[0].workload
    return from_runs("growth_exponent", workload, mode, params, runs, goal=goal, floor=floor)


def _rates(scenario: Scenario, mode: str, outcome: Outcome) -> Optional[Record]:
    params = dict(scenario.params, delay_ms=scenario.delay_ms)
    return outcome.find(RATE, scenario.workload, mode, **params)
