"""The table of docs/benchmarks.md on dynamic tables."""

from __future__ import annotations

from typing import Any

from tools.bench.dynamic_tables import page
from tools.bench.records import Outcome, Record


def record(figure: str, value: float, mode: str = "dynamic", **more: Any) -> Record:
    params = {"keys": 1000, "distribution": "zipf", "pass": "train", **more}
    return Record(figure, "dynamic", mode, params, value)


def test_a_row_has_what_was_measured_of_our_table() -> None:
    outcome = Outcome(
        (
            Record("bytes_per_key", "dynamic", "dynamic", {"keys": 1000}, 33.5),
            record("microseconds", 2500.0, implementation="dynamic"),
            record("microseconds", 9999.0, "tfra", implementation="tfra"),
            record("ratio_to_static", 0.61),
            record("ratio_over_floor", 1.7),
            record("ratio_to_static", 0.5, keys=2000),
        )
    )
    assert page.rows(outcome) == [
        "| 1,000 | zipf | training, Adagrad | 2.50 ms | 0.61 |  |  | 1.7 |"
    ]
    assert all(line.count("|") == 9 for line in page.HEAD)
