"""The figures of one training scenario, from the turns of its contestants."""

from __future__ import annotations

import statistics
from typing import List, Mapping, Sequence

from tools.bench.machine import cores
from tools.bench.records import Absent, Outcome, Record, from_runs
from tools.bench.training.contenders import LOOKUPS_ALONE, PRODUCTS_ALONE, Turn, Turns
from tools.bench.training.contests import Contest, Overlap, Scenario, goal_of
from tools.bench.training.more_cores import on_more_cores
from tools.bench.training.overlap import Seconds
from tools.bench.training.sessions import STOCK
from tools.bench.turns import ratios


def outcome_of(contest: Contest, scenario: Scenario, turns: Turns) -> Outcome:
    """All figures of a scenario.

    Args:
        contest: the modes.
        scenario: where they were measured.
        turns: the turns of each of the contestants, as many of each.
    """
    rounds = {overlap: _rounds(overlap, turns) for overlap in contest.overlaps}
    records = _rates(contest, scenario, turns, rounds)
    records.extend(_ratios(contest, scenario, turns))
    for overlap in contest.overlaps:
        records.extend(_floors(overlap, scenario, rounds[overlap]))
    if contest.explains_floor:
        records.append(_products(contest.overlaps[0], scenario, turns[PRODUCTS_ALONE]))
        records.extend(on_more_cores(contest.overlaps[0], scenario, turns))
    for mode in contest.modes:
        records.extend(_waits(mode, scenario, turns[mode]))
    outcome = Outcome(tuple(records))
    for overlap in contest.overlaps:
        outcome += _efficiency(overlap, scenario, rounds[overlap])
    return outcome


def _rounds(overlap: Overlap, turns: Turns) -> List[Seconds]:
    names = (overlap.in_line, overlap.ahead, overlap.main, LOOKUPS_ALONE)
    return [_seconds(*each) for each in zip(*(turns[name] for name in names))]


def _seconds(in_line: Turn, ahead: Turn, main_alone: Turn, lookups_alone: Turn) -> Seconds:
    # The CPU time of a step is the least that a step was seen to do with. The proxy's is no part of
    # it, but taken from the same cores.
    cpu_seconds = min(_cpu_seconds(turn) + _proxy_cpu_seconds(turn) for turn in (in_line, ahead))
    return Seconds(
        in_line.seconds_per_step,
        ahead.seconds_per_step,
        main_alone.seconds_per_step,
        lookups_alone.seconds_per_step,
        cpu_seconds / cores(),
    )


def _cpu_seconds(turn: Turn) -> float:
    """CPU seconds a step without the proxy: it stands for a network, which takes no CPU."""
    return (turn.cpu_seconds["worker"] + turn.cpu_seconds["ps"]) / turn.steps


def _proxy_cpu_seconds(turn: Turn) -> float:
    return turn.cpu_seconds["proxy"] / turn.steps


def _typical(rounds: Sequence[Seconds]) -> Seconds:
    return Seconds(*(statistics.median(column) for column in zip(*rounds)))


def _rates(
    contest: Contest,
    scenario: Scenario,
    turns: Turns,
    rounds: Mapping[Overlap, Sequence[Seconds]],
) -> List[Record]:
    # The floor is that of the work which the two modes do.
    best = {
        mode: scenario.workers / _typical(rounds[overlap]).floor
        for overlap in reversed(contest.overlaps)
        for mode in (overlap.in_line, overlap.ahead)
    }
    records = []
    for mode in contest.modes:
        rates = [scenario.workers / turn.seconds_per_step for turn in turns[mode]]
        cpu_seconds = [_cpu_seconds(turn) / scenario.workers for turn in turns[mode]]
        of_mode = (scenario.workload, mode, scenario.params)
        floor = best.get(mode)
        records.append(from_runs("steps_per_s", *of_mode, rates, "1/s", floor=floor))
        records.append(from_runs("cpu_s_per_step", *of_mode, cpu_seconds, "s"))
        if scenario.servers:
            of_servers = [
                turn.cpu_seconds["ps"] / turn.steps / scenario.workers for turn in turns[mode]
            ]
            records.append(from_runs("server_cpu_s_per_step", *of_mode, of_servers, "s"))
        if scenario.delay_ms:
            of_proxy = [_proxy_cpu_seconds(turn) / scenario.workers for turn in turns[mode]]
            records.append(from_runs("proxy_cpu_s_per_step", *of_mode, of_proxy, "s"))
    return records


def _ratios(contest: Contest, scenario: Scenario, turns: Turns) -> List[Record]:
    stock = [turn.seconds_per_step for turn in turns[STOCK]]
    return [
        from_runs(
            "ratio_to_stock",
            scenario.workload,
            mode,
            scenario.params,
            ratios(stock, [turn.seconds_per_step for turn in turns[mode]]),
            goal=goal_of(mode, scenario),
        )
        for mode in contest.modes
        if mode != STOCK
    ]


def _floors(overlap: Overlap, scenario: Scenario, rounds: Sequence[Seconds]) -> List[Record]:
    parts = {
        overlap.main + "_s_per_step": [each.main_alone for each in rounds],
        "lookups_alone_s_per_step": [each.lookups_alone for each in rounds],
        "floor_s_per_step": [each.floor for each in rounds],
    }
    return [
        from_runs(figure, scenario.workload, overlap.ahead, scenario.params, runs, "s")
        for figure, runs in parts.items()
    ]


def _products(overlap: Overlap, scenario: Scenario, turns: Sequence[Turn]) -> Record:
    """What main would take if it were nothing but its matrix products."""
    runs = [turn.seconds_per_step for turn in turns]
    return from_runs(
        "products_alone_s_per_step", scenario.workload, overlap.ahead, scenario.params, runs, "s"
    )


def _waits(mode: str, scenario: Scenario, turns: Sequence[Turn]) -> List[Record]:
    """How long main waited for a batch (take), and the lookups for room (put)."""
    if not turns[0].buffers:
        return []
    prefetch = list(turns[0].buffers)[-1]  # stages come upstream first
    return [
        from_runs(
            side + "_wait_s_per_step",
            scenario.workload,
            mode,
            scenario.params,
            [turn.buffers[prefetch][side + "_wait_micros"] / 1e6 / turn.steps for turn in turns],
            "s",
        )
        for side in ("take", "put")
    ]


def _efficiency(overlap: Overlap, scenario: Scenario, rounds: Sequence[Seconds]) -> Outcome:
    figure = ("overlap_efficiency", scenario.workload, overlap.ahead, scenario.params)
    typical = _typical(rounds)
    if not typical.has_room:
        reason = "{}'s {:.2f} ms a step are {:.2f} of the floor of {:.2f} ms: no room".format(
            overlap.in_line,
            1e3 * typical.in_line,
            typical.in_line / typical.floor,
            1e3 * typical.floor,
        )
        return Outcome((), (Absent(*figure, reason),))
    runs = [each.efficiency for each in rounds]
    return Outcome((from_runs(*figure, runs),))
