"""The table of docs/scaling.md, from scaling.json."""

from __future__ import annotations

from typing import List

from tools.bench.pages import head, row
from tools.bench.records import Outcome
from tools.bench.scaling.chart import MODES, points
from tools.bench.scaling.load import REPLICATED

HEAD = head("where rows are | keys | 2 ranks | 8 | 64 | 512")
_SHOWN = (2, 8, 64, 512)
_IDS = {"hashed": "hashed", "by_frequency": "by frequency"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each placement and numbering of keys: bytes, unevenness and time of a step."""
    return [_row(outcome, mode, ids) for mode in MODES for ids in _IDS]


def _row(outcome: Outcome, mode: str, ids: str) -> str:
    sizes = dict(points(outcome, "simulated_bytes", mode, ids))
    uneven = dict(points(outcome, "unevenness", mode, ids))
    times = dict(points(outcome, "simulated_s_per_step", mode, ids))
    cells = []
    for ranks in _SHOWN:
        words = "{} MB, {:,.0f} ms".format(_megabytes(sizes[ranks]), times[ranks] * 1e3)
        if mode != REPLICATED:
            words += ", {:.2f}".format(uneven[ranks])
        cells.append(words)
    return row(MODES[mode][0], _IDS[ids], *cells)


def _megabytes(size: float) -> str:
    """Three digits, or all before the point if they are more."""
    return ("{:,.0f}" if size >= 1e8 else "{:.3g}").format(size / 1e6)
