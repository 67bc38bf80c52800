"""The table of docs/benchmarks.md on parameter servers, from cluster.json."""

from __future__ import annotations

from typing import List

from tools.bench.pages import head, row
from tools.bench.records import Outcome
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.cluster_chart import WORKERS, over_delays, value_of
from tools.bench.training.sessions import BOTH, PIPELINED, RETURNED, STOCK

HEAD = head(
    "model | tasks | ms to a server | TensorFlow alone | fused and ahead | and returned "
    "| and pipelined | calls a step | MB a step"
)
_TASKS = {1: "1 + 1", 2: "2 + 2"}
_MODES = (STOCK, BOTH, RETURNED, PIPELINED)


def rows(outcome: Outcome) -> List[str]:
    """A row for each scenario: rates and ratios, and what a step sends in these modes."""
    return [
        _row(outcome, workload, workers, delay)
        for workload in WORKLOADS
        for workers in WORKERS
        for delay, _ in over_delays(outcome, "steps_per_s", workload, STOCK, workers)
    ]


def _row(outcome: Outcome, workload: str, workers: int, delay: float) -> str:
    rates = []
    for mode in _MODES:
        rate = value_of(outcome, "steps_per_s", workload, mode, workers, delay)
        ratio = value_of(outcome, "ratio_to_stock", workload, mode, workers, delay)
        words = "" if rate is None else "{:.3g} steps/s".format(rate)
        rates.append(words if ratio is None else "{}, **{:.2f}**".format(words, ratio))
    calls = [outcome.value("calls_per_step", workload, mode, servers=workers) for mode in _MODES]
    sizes = [outcome.value("bytes_per_step", workload, mode, servers=workers) for mode in _MODES]
    return row(
        WORKLOADS[workload],
        _TASKS[workers],
        "{:g}".format(delay),
        *rates,
        ", ".join("{:.0f}".format(value) for value in calls if value is not None),
        ", ".join("{:.3g}".format(value / 1e6) for value in sizes if value is not None),
    )
