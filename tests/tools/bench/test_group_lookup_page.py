"""The table of docs/benchmarks-tables.md on lookups of many tables."""

from __future__ import annotations

from typing import Any

from tools.bench import group_lookup_page
from tools.bench.records import Outcome, Record


def record(figure: str, value: float, mode: str = "fused", **more: Any) -> Record:
    params = {"batch": 4096, "ids_per_row": 20, "distribution": "zipf", "pass": "forward", **more}
    return Record(figure, "group_lookup", mode, params, value)


def test_a_row_has_the_ratios_of_both_distributions() -> None:
    outcome = Outcome(
        (
            record("microseconds", 2500.0, implementation="graph_opt"),
            record("ratio_to_tf", 3.0),
            record("ratio_to_tf", 2.0, distribution="uniform"),
            record("ratio_to_tf_safe", 7.25),
            record("ratio_to_fbgemm", 1.5, **{"pass": "train"}),
        )
    )
    assert group_lookup_page.rows(outcome) == [
        "| 4,096 x 20 | lookup | 3, 2 | 7.2 |  |  |",
        "| 4,096 x 20 | training, Adagrad |  |  | 1.5 |  |",
    ]
    assert {line.count("|") for line in group_lookup_page.HEAD} == {7}
