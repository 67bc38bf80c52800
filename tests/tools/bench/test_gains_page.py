"""The table of docs/choose-options.md has the least and the most that an option gained."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bench import gains_page
from tools.bench.gains_page import Gain
from tools.bench.records import Outcome, Record

GAIN = Gain(
    "lookups",
    "`this`",
    "that",
    "train",
    [("ratio_to_stock", "both")],
    {"wide": "wide", "dlrm": "DLRM"},
    {"delay_ms": {None, 3.0}},
)


def record(workload: str, value: float, mode: str = "both", **params: Any) -> Record:
    return Record("ratio_to_stock", workload, mode, params, value)


def test_a_row_has_the_span_of_each_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains_page, "GAINS", (GAIN,))
    measured = (
        record("dlrm", 1.25),
        record("wide", 12.34),
        record("wide", 2.0, delay_ms=3.0),
        record("wide", 1.0, delay_ms=1.0),
        record("wide", 1.0, mode="fused"),
        record("din", 1.0),
    )
    assert gains_page.rows({"train": Outcome(measured)}.__getitem__) == [
        "| lookups | `this` | that | wide **2.00 to 12.3**, DLRM **1.25** "
        "| [train.json](benchmarks/train.json) |"
    ]


def test_an_option_without_figures_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gains_page, "GAINS", (GAIN,))
    assert gains_page.rows({"train": Outcome((record("din", 1.0),))}.__getitem__) == []
