"""The table of docs/scaling-cores.md."""

from __future__ import annotations

from tools.bench.records import Outcome, Record
from tools.bench.training import cores_page


def test_a_row_has_what_was_computed_for_its_cores() -> None:
    outcome = Outcome(
        (
            Record("steps_per_s", "dlrm", "both", {}, 70.0),
            Record("computed_steps_per_s", "dlrm", "stock", {"cores": 2}, 60.0),
            Record("computed_steps_per_s", "dlrm", "stock", {"cores": 4}, 100.0),
            Record("computed_steps_per_s", "dlrm", "both", {"cores": 4}, 150.0),
            Record("computed_ratio_to_stock", "dlrm", "both", {"cores": 4}, 1.5),
        )
    )
    assert cores_page.rows(outcome) == ["| DLRM | 4 | 100 steps/s | 150 steps/s | **1.50** |"]
    assert {line.count("|") for line in cores_page.HEAD} == {6}
