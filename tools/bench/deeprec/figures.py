"""From what the trainings of a script came to, its figures."""

from __future__ import annotations

import re
import statistics
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from tools.bench.deeprec.modes import ASYNC, BOTH, DECODE, FLAGS, SMART, STOCK
from tools.bench.deeprec.training import Turn
from tools.bench.machine import cores
from tools.bench.records import Goal, Outcome, Record, from_runs
from tools.bench.turns import ratios

CSV = "csv"
CSV_LOOKUPS = "csv_lookups"
COUNTS = ("lookups", "lookups_fused", "fused_ops", "lookups_ahead", "nodes_ahead")
_GOALS = {
    ("ratio_to_stock", FLAGS): Goal(">=", 1.0),
    ("ratio_to_stock", SMART): Goal(">=", 1.2),
    ("ratio_to_async", BOTH): Goal(">=", 1.0),
}
# What a session says of itself.
_DONE = (
    re.compile(r"(?P<lookups_fused>\d+) of (?P<lookups>\d+) lookups fused into (?P<fused_ops>\d+)"),
    re.compile(r"(?P<lookups_ahead>\d+) of (?P<lookups>\d+) (lookups )?run ahead of the step"),
    re.compile(r"smart stage: (?P<nodes_ahead>\d+) nodes?"),
)


class Found(NamedTuple):
    """What the trainings of a script came to, by mode.

    Attributes:
      turns: All that were timed.
      areas: Under the curve, of those that were evaluated.
      reports: Of graph_opt.
    """

    turns: Mapping[str, Sequence[Turn]]
    areas: Mapping[str, float]
    reports: Mapping[str, Any]


def outcome_of(script: str, params: Dict[str, Any], found: Found) -> Outcome:
    """The records of a script."""
    trained = [mode for mode in found.turns if mode != DECODE]
    records = [_rate(script, mode, params, found.turns) for mode in trained]
    for figure, base in (("ratio_to_stock", STOCK), ("ratio_to_async", ASYNC)):
        others = [BOTH] if base == ASYNC else trained[1:]
        for mode in others if base in trained else ():
            quotients = _seconds_over(found.turns, base, mode)
            goal = _GOALS.get((figure, mode))
            records.append(from_runs(figure, script, mode, params, quotients, goal=goal))
    if DECODE in found.turns:
        share = _seconds_over(found.turns, DECODE, STOCK)
        records.append(from_runs("decode_share", script, STOCK, params, share))
    for mode, area in found.areas.items():
        records.append(from_runs("auc", script, mode, params, [area]))
    for mode, report in found.reports.items():
        for figure, count in done_by(report).items():
            records.append(from_runs(figure, script, mode, params, [count]))
    return Outcome(tuple(records))


def done_by(report: Dict[str, Any]) -> Dict[str, int]:
    """What became of the graph that trains, the first of a report: some of `COUNTS`."""
    summary = report["processes"][0]["sessions"][0]["summary"]
    done: Dict[str, int] = {}
    for pattern in _DONE:
        said = pattern.search(summary)
        if said is not None:
            done.update((name, int(count)) for name, count in said.groupdict().items())
    return {name: done[name] for name in COUNTS if name in done}


def _rate(
    script: str, mode: str, params: Dict[str, Any], turns: Mapping[str, Sequence[Turn]]
) -> Record:
    """Steps a second; at best all cores share the CPU time of a step."""
    rates = [1 / turn.seconds for turn in turns[mode]]
    busy = statistics.median(turn.cpu_seconds for turn in turns[mode])
    floor = cores() / busy
    return from_runs("steps_per_s", script, mode, params, rates, "1/s", floor=floor)


def _seconds_over(turns: Mapping[str, Sequence[Turn]], above: str, below: str) -> List[float]:
    """Seconds of a step over those of another, of each round."""
    numerators, denominators = ([turn.seconds for turn in turns[mode]] for mode in (above, below))
    return ratios(numerators, denominators)
