"""The tables of docs/scaling.md, from scaling.json."""

from __future__ import annotations

from typing import Iterable, List

from tools.bench.pages import head, row
from tools.bench.records import Outcome
from tools.bench.scaling.chart import MODES, points
from tools.bench.scaling.load import REPLICATED

HEAD = head("where rows are | keys | 2 ranks | 8 | 64 | 512")
_SHOWN = (2, 8, 64, 512)
_IDS = {"hashed": "hashed", "by_frequency": "by frequency"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each placement and numbering of keys: megabytes through the busiest rank."""
    return _rows(outcome, "simulated_bytes", 1e-6, MODES)


def time_rows(outcome: Outcome) -> List[str]:
    """The same with the milliseconds of a step."""
    return _rows(outcome, "simulated_s_per_step", 1e3, MODES)


def uneven_rows(outcome: Outcome) -> List[str]:
    """The same with the rows asked of the busiest rank over the mean, where tables are divided."""
    divided = [mode for mode in MODES if mode != REPLICATED]
    return _rows(outcome, "unevenness", 1, divided)


def _rows(outcome: Outcome, figure: str, factor: float, modes: Iterable[str]) -> List[str]:
    def cells(mode: str, ids: str) -> List[str]:
        values = dict(points(outcome, figure, mode, ids))
        return [_three_digits(values[ranks] * factor) for ranks in _SHOWN]

    return [row(MODES[mode][0], _IDS[ids], *cells(mode, ids)) for mode in modes for ids in _IDS]


def _three_digits(value: float) -> str:
    """Three digits, or all before the point if they are more."""
    return ("{:,.0f}" if value >= 100 else "{:.3g}").format(value)
