"""The table of docs/scaling.md on parameter servers, from server_scaling.json."""

from __future__ import annotations

from typing import List

from tools.bench.pages import head, row
from tools.bench.records import Outcome
from tools.bench.server_scaling.benchmark import SIZES
from tools.bench.training.chart_style import WORKLOADS

HEAD = head(" | ".join(["model, mode", *("{} + {}".format(*size) for size in SIZES)]))


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode: steps of all workers, speed-up, and how busy servers are."""
    modes = dict.fromkeys((record.workload, record.mode) for record in outcome.records)
    return [
        row(
            "{}, {}".format(WORKLOADS[workload], mode),
            *(_cell(outcome, workload, mode, *size) for size in SIZES),
        )
        for workload, mode in modes
    ]


def _cell(outcome: Outcome, workload: str, mode: str, servers: int, workers: int) -> str:
    rate, speed_up, busy = (
        outcome.value(figure, workload, mode, servers=servers, workers=workers)
        for figure in ("steps_per_s", "speed_up", "server_busy")
    )
    if rate is None or speed_up is None or busy is None:
        return ""
    return "{:,.0f} steps/s, {:.1f} times, {:.0%}".format(rate, speed_up, busy)
