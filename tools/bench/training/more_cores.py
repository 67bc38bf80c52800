"""What a step would take on more cores, computed from its CPU time and its critical path.

    seconds(c) = critical path + (CPU time - critical path) / c

is the bound of greedy schedules on c cores (R. P. Brent, "The Parallel Evaluation of General
Arithmetic Expressions", JACM 21, 1974). It is taken for what a step reaches, so that the critical
path, which no number of cores makes shorter, follows from the seconds and the CPU time that were
measured. Where lookups run ahead, a step is the longest of main alone, lookups alone and the CPU
time over the cores; it stays as far above that as it was measured to be.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping

from tools.bench.machine import cores
from tools.bench.records import Record, from_runs
from tools.bench.training.contenders import LOOKUPS_ALONE, Turn, Turns
from tools.bench.training.contests import Overlap, Scenario
from tools.bench.training.sessions import STOCK
from tools.bench.turns import ratios

CORES = (2, 4, 8, 16)


def on_more_cores(overlap: Overlap, scenario: Scenario, turns: Turns) -> List[Record]:
    """What stock and the mode whose lookups run ahead would reach; [] on a single core.

    Args:
        overlap: the mode that runs ahead, and its main.
        scenario: where it was measured, all in one process.
        turns: of all contestants.
    """
    measured_on = cores()
    if measured_on == 1:
        return []
    names = (overlap.ahead, overlap.main, LOOKUPS_ALONE, STOCK)
    rounds = [dict(zip(names, each)) for each in zip(*(turns[name] for name in names))]
    records: List[Record] = []
    for count in CORES:
        stock = [seconds_on(each[STOCK], count, measured_on) for each in rounds]
        ahead = [_ahead_on(overlap, each, count, measured_on) for each in rounds]
        of_cores: Dict[str, Any] = dict(scenario.params, cores=count)
        for mode, seconds in ((STOCK, stock), (overlap.ahead, ahead)):
            rates = [1 / each for each in seconds]
            of_mode = ("computed_steps_per_s", scenario.workload, mode, of_cores)
            records.append(from_runs(*of_mode, rates, "1/s"))
        of_mode = ("computed_ratio_to_stock", scenario.workload, overlap.ahead, of_cores)
        records.append(from_runs(*of_mode, ratios(stock, ahead)))
    return records


def seconds_on(turn: Turn, count: int, measured_on: int) -> float:
    """Seconds of a step on so many cores, from those on `measured_on`, at least 2."""
    work = turn.cpu_seconds_per_step
    path = (measured_on * turn.seconds_per_step - work) / (measured_on - 1)
    if path >= work:
        return turn.seconds_per_step  # nothing runs side by side
    path = max(path, 0.0)
    return path + (work - path) / count


def _ahead_on(overlap: Overlap, turns: Mapping[str, Turn], count: int, measured_on: int) -> float:
    above = turns[overlap.ahead].seconds_per_step / _floor(overlap, turns, measured_on, measured_on)
    return above * _floor(overlap, turns, count, measured_on)


def _floor(overlap: Overlap, turns: Mapping[str, Turn], count: int, measured_on: int) -> float:
    parts = [seconds_on(turns[name], count, measured_on) for name in (overlap.main, LOOKUPS_ALONE)]
    return max(*parts, turns[overlap.ahead].cpu_seconds_per_step / count)
