"""docs/ shows what samples and limits cost as staleness.json has it."""

from __future__ import annotations

from tools.bench import staleness_page
from tools.bench.records import Outcome, Record
from tools.bench.training.sessions import BOTH


def test_a_row_for_samples_and_for_each_limit() -> None:
    limited = [{"batch": 512, "capacity": 8, "limit": limit} for limit in (0, 1)]
    records = (
        Record("seconds_per_step", "dlrm", BOTH, {"capacity": 2}, 0.01, "s"),
        Record("sampled_share", "dlrm", BOTH, {"capacity": 2}, 0.0034),
        Record("ratio_to_unlimited", "dlrm", BOTH, limited[0], 1.1),
        Record("ratio_to_unlimited", "dlrm", BOTH, limited[1], 0.98),
        Record("conflicting_rows_share", "dlrm", BOTH, limited[1], 0.25),
    )
    assert staleness_page.rows(Outcome(records)) == [
        "| DLRM | fused and run ahead | one step in 64 sampled | 0.3% |  |",
        "| DLRM | fused and run ahead | at most 0 updates missed, `capacity: 8` | 10.0% "
        "| all, by the step |",
        "| DLRM | fused and run ahead | at most 1 update missed, `capacity: 8` | -2.0% | 25.0% |",
    ]
