"""The table of docs/benchmarks.md on dynamic tables."""

from __future__ import annotations

from typing import Any

from tools.bench.charts import svg
from tools.bench.dynamic_tables import page
from tools.bench.records import Outcome, Record


def record(figure: str, value: float, mode: str = "dynamic", **more: Any) -> Record:
    params = {"keys": 1000, "distribution": "zipf", "pass": "train", **more}
    return Record(figure, "dynamic", mode, params, value)


def test_a_row_has_what_was_measured_of_our_table() -> None:
    lookup = {"pass": "forward"}
    outcome = Outcome(
        (
            Record("bytes_per_key", "dynamic", "dynamic", {"keys": 1000}, 33.5),
            record("microseconds", 2500.0, implementation="dynamic"),
            record("microseconds", 9999.0, "tfra", implementation="tfra"),
            record("ratio_to_static", 0.61),
            record("ratio_to_static", 0.5, keys=2000),
            record("microseconds", 800.0, **lookup),
            record("ratio_to_mutable", 9.2, **lookup),
            record("ratio_over_floor", 1.7, **lookup),
        )
    )
    assert page.rows(outcome) == ["| 1,000 | zipf |  |  | 9.2 | 1.7 |"]
    assert page.work_rows(outcome) == ["| 1,000 | zipf | training, Adagrad | 2.50 ms | 0.61 |  |"]
    assert {line.count("|") for line in (*page.HEAD, *page.WORK_HEAD)} == {7}
    assert "MutableHashTable, 1,000 rows, zipf ids" in svg(page.dynamic_chart(outcome))
