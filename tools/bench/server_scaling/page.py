"""The tables of docs/scaling-servers.md, from server_scaling.json."""

from __future__ import annotations

from typing import Callable, List, Sequence, Tuple

from tools.bench.pages import head, row
from tools.bench.records import Outcome
from tools.bench.server_scaling.benchmark import SIZES
from tools.bench.training.chart_style import WORKLOADS

_SIZES = ["{} + {}".format(*size) for size in SIZES]
HEAD = head(" | ".join(["model, mode", "one worker", *_SIZES[1:]]))
BUSY_HEAD = head(" | ".join(["model, mode", *_SIZES]))
_MODES = {"stock": "TensorFlow alone", "both": "fused and ahead"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode: the rate of one worker, and what more reach over it."""

    def cells(workload: str, mode: str) -> List[str]:
        rate = _cell(outcome, "steps_per_s", "{:,.0f} steps/s", workload, mode, SIZES[0])
        return [rate] + [
            _cell(outcome, "speed_up", "{:.1f}", workload, mode, size) for size in SIZES[1:]
        ]

    return _rows(outcome, cells)


def busy_rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode: which share of the servers' cores works."""
    return _rows(
        outcome,
        lambda workload, mode: [
            _cell(outcome, "server_busy", "{:.0%}", workload, mode, size) for size in SIZES
        ],
    )


def _rows(outcome: Outcome, cells: Callable[[str, str], Sequence[str]]) -> List[str]:
    named = dict.fromkeys((record.workload, record.mode) for record in outcome.records)
    return [
        row("{}, {}".format(WORKLOADS[workload], _MODES.get(mode, mode)), *cells(workload, mode))
        for workload, mode in named
    ]


def _cell(
    outcome: Outcome, figure: str, form: str, workload: str, mode: str, size: Tuple[int, int]
) -> str:
    servers, workers = size
    value = outcome.value(figure, workload, mode, servers=servers, workers=workers)
    return "" if value is None else form.format(value)
