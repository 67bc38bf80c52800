"""The table of docs/staleness.md, from accuracy.json."""

from __future__ import annotations

from typing import List, Optional

from tools.bench.accuracy.figures import GROUPS
from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record
from tools.bench.training.sessions import BOTH, EXACT, STOCK

_CASES = {"movielens": "MovieLens 100K", "criteo": "generated, Criteo's format"}
_DECIMALS = 4
_WORDS = {STOCK: "TensorFlow alone", BOTH: "run ahead", EXACT: "run ahead, exact"}


def _title(first: int, last: Optional[int]) -> str:
    if last is None:
        return "more"
    return str(first) if first == last else "{} to {}".format(first, last)


HEAD = head(
    "rows | how | `capacity` | AUC | beside TensorFlow alone | missed {} | on average "
    "| relative L2".format(" | ".join(_title(*group) for group in GROUPS))
)


def rows(outcome: Outcome) -> List[str]:
    """A row for each data set and way."""
    ways = ((each.workload, each.mode, each.params.get("capacity")) for each in outcome.records)
    return [_row(outcome, *way) for way in dict.fromkeys(ways)]


def _row(outcome: Outcome, case: str, mode: str, capacity: Optional[int]) -> str:
    def found(figure: str, first: Optional[int] = None) -> Optional[Record]:
        return outcome.find(figure, case, mode, capacity=capacity, first=first)

    return row(
        _CASES[case],
        _WORDS[mode],
        capacity or "",
        _spread("{:.4f}", found("auc")),
        _spread("{:+.4f}", found("auc_beside_stock")),
        *(words("{:.1%}", found("rows_missing", first)) for first, _ in GROUPS),
        words("{:.2f}", found("missed_updates")),
        words("{:.2g}", found("relative_l2")),
    )


def _spread(form: str, record: Optional[Record]) -> str:
    """The median of the seeds, and the least and the most of them."""
    if record is None:
        return ""
    numbers = (record.value, min(record.runs), max(record.runs))
    rounded = (round(number, _DECIMALS) + 0.0 for number in numbers)  # without a sign of zero
    return "{} ({} to {})".format(*map(form.format, rounded))
