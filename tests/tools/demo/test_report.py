"""Rows of the demo's report fit a terminal of 80 columns, however fast or slow the machine is."""

from __future__ import annotations

from typing import Dict, List

import pytest

from tools.bench.training.contenders import Turn
from tools.bench.training.measurement import figures
from tools.bench.training.sessions import MODES, STOCK
from tools.bench.workloads.scoring import Score
from tools.demo.report import FLOOR_ROWS, TABLES, WAIT_ROWS, Part, _row

WIDTH = 80
SCORE = Score(rows=40000, auc=0.5, log_loss=0.6931)


def part(stock_seconds: float, times: float) -> Part:
    """A part in which all modes are so many times as fast as TensorFlow alone."""
    waits = {"put_wait_micros": int(1e9 * stock_seconds), "take_wait_micros": 0, "take_count": 1}

    def turns(seconds: float) -> List[Turn]:
        return [Turn(1, each * seconds, {"worker": seconds}, (), {"a": waits}) for each in (1, 3)]

    names = [*MODES, "main_alone", "lookups_alone"]
    taken = {name: turns(stock_seconds / (1.0 if name == STOCK else times)) for name in names}
    scores: Dict[str, Score] = dict.fromkeys(MODES, SCORE)
    return Part("parameter server 100 ms away", taken, figures(taken, 2), scores, None, [])


@pytest.mark.parametrize("stock_seconds", [1e-3, 1e-2, 1.0, 100.0])
@pytest.mark.parametrize("times", [0.01, 1.0, 9.99, 123.4])
def test_rows_fit(stock_seconds: float, times: float) -> None:
    parts = [part(stock_seconds, times)] * 2
    rows = [_row("", [one.title for one in parts])]
    for _, of_mode in TABLES:
        rows += [_row(mode, [of_mode(one, mode) for one in parts]) for mode in MODES]
    for label, value in (*FLOOR_ROWS, *WAIT_ROWS):
        rows.append(_row(label, [value(one) for one in parts]))
    assert [row for row in rows if len(row) > WIDTH] == []


def test_large_ratios_have_no_fraction() -> None:
    rate = dict((title[:5], value) for title, value in TABLES)["Steps"]
    assert rate(part(0.01, 123.4), "both").endswith(" 123x")
    assert rate(part(0.01, 1.5), "both").endswith(" 1.50x")
