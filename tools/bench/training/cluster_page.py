"""The tables of docs/benchmarks-servers.md on parameter servers, from train.json."""

from __future__ import annotations

from typing import List

from tools.bench.pages import gain, head, row
from tools.bench.records import Outcome
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.cluster_chart import WORKERS, over_delays, record_of
from tools.bench.training.sessions import BOTH, PIPELINED, RETURNED, STOCK

HEAD = head("model | tasks | ms to a server | fused and ahead | and returned | and pipelined")
SENT_HEAD = head(
    "model | tasks | TensorFlow alone | fused and ahead | and returned | and pipelined"
)
_TASKS = {1: "1 + 1", 2: "2 + 2"}
_MODES = (STOCK, BOTH, RETURNED, PIPELINED)


def rows(outcome: Outcome) -> List[str]:
    """How many times as fast as TensorFlow alone, for each scenario."""
    return [
        row(
            WORKLOADS[workload],
            _TASKS[workers],
            "{:g}".format(delay),
            *(
                gain(record_of(outcome, "ratio_to_stock", workload, mode, workers, delay))
                for mode in _MODES[1:]
            ),
        )
        for workload in WORKLOADS
        for workers in WORKERS
        for delay, _ in over_delays(outcome, "steps_per_s", workload, STOCK, workers)
    ]


def sent_rows(outcome: Outcome) -> List[str]:
    """What a worker's step sends and receives, which depends on no delay."""
    return [
        row(WORKLOADS[workload], _TASKS[workers], *cells)
        for workload in WORKLOADS
        for workers in WORKERS
        for cells in [[_sent(outcome, workload, workers, mode) for mode in _MODES]]
        if any(cells)
    ]


def _sent(outcome: Outcome, workload: str, workers: int, mode: str) -> str:
    calls = outcome.value("calls_per_step", workload, mode, servers=workers)
    size = outcome.value("bytes_per_step", workload, mode, servers=workers)
    if calls is None or size is None:
        return ""
    return "{:.0f} calls, {:.3g} MB".format(calls, size / 1e6)
