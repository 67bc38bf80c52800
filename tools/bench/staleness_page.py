"""The table of docs/staleness.md on what samples and limits cost, from staleness.json."""

from __future__ import annotations

from typing import List, Optional

from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import ASYNC, BOTH

HEAD = (
    "| model | its lookups | what | takes, of a step | ids read again |",
    "|---|---|---|---|---|",
)
_MODES = {ASYNC: "run ahead", BOTH: "fused and run ahead"}


def rows(outcome: Outcome) -> List[str]:
    """A row for the samples of each model and way, and for each limit."""
    found = [_row(outcome, record) for record in outcome.records]
    return [row for row in found if row is not None]


def _row(outcome: Outcome, record: Record) -> Optional[str]:
    if record.figure == "sampled_share":
        return _line(record, "one step in 64 sampled", record.value, "")
    if record.figure != "ratio_to_unlimited":
        return None
    limit, capacity = record.params["limit"], record.params["capacity"]
    updates = "update" if limit == 1 else "updates"
    what = "at most {} {} missed, `capacity: {}`".format(limit, updates, capacity)
    return _line(record, what, record.value - 1.0, _read_again(outcome, record))


def _line(record: Record, what: str, share: float, again: str) -> str:
    model, share = WORKLOADS[record.workload], round(share, 3) + 0.0  # without a sign of zero
    return "| {} | {} | {} | {:.1%} | {} |".format(model, _MODES[record.mode], what, share, again)


def _read_again(outcome: Outcome, limited: Record) -> str:
    for record in outcome.records:
        same = (record.workload, record.params) == (limited.workload, limited.params)
        if record.figure == "conflicting_rows_share" and same:
            return "{:.1%}".format(record.value)
    return "all, by the step"
