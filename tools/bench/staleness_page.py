"""The table of docs/staleness.md on what samples and limits cost, from staleness.json."""

from __future__ import annotations

from typing import List, Optional

from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import ASYNC, BOTH

HEAD = head("model | its lookups | what | takes, of a step | ids read again")
_MODES = {ASYNC: "run ahead", BOTH: "fused and run ahead"}


def rows(outcome: Outcome) -> List[str]:
    """A row for the samples of each model and way, and for each limit."""
    found = [_row(outcome, record) for record in outcome.records]
    return [line for line in found if line is not None]


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
    share = round(share, 3) + 0.0  # without a sign of zero
    model, mode = WORKLOADS[record.workload], _MODES[record.mode]
    return row(model, mode, what, "{:.1%}".format(share), again)


def _read_again(outcome: Outcome, limited: Record) -> str:
    share = outcome.find("conflicting_rows_share", limited.workload, limited.mode, **limited.params)
    return words("{:.1%}", share) or "all, by the step"
