"""Two tables of docs/staleness.md, from accuracy.json: accuracy, and how old rows were."""

from __future__ import annotations

from typing import List, Optional

from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record
from tools.bench.training.sessions import BOTH, EXACT, STOCK

_CASES = {"movielens": "MovieLens 100K", "criteo": "generated, Criteo's format"}
_DECIMALS = 4
_WORDS = {STOCK: "TensorFlow alone", BOTH: "run ahead", EXACT: "run ahead, exact"}
_MANY = 8  # Rows that have missed more updates than that are counted together.

HEAD = head("rows | how | `capacity` | AUC | difference from TensorFlow alone")
MISSED_HEAD = head(
    "rows | `capacity` | missed none | missed more than {} | on average | relative L2".format(_MANY)
)


def rows(outcome: Outcome) -> List[str]:
    """A row for each data set and way."""
    ways = ((each.workload, each.mode, each.params.get("capacity")) for each in outcome.records)
    return [_row(outcome, *way) for way in dict.fromkeys(ways)]


def missed_rows(outcome: Outcome) -> List[str]:
    """A row for each data set and capacity of lookups that run ahead without `exact`."""
    means = [each for each in outcome.records if each.figure == "missed_updates"]
    return [_missed_row(outcome, mean) for mean in means if mean.mode == BOTH]


def _row(outcome: Outcome, case: str, mode: str, capacity: Optional[int]) -> str:
    return row(
        _CASES[case],
        _WORDS[mode],
        capacity or "",
        _spread("{:.4f}", outcome.find("auc", case, mode, capacity=capacity)),
        _spread("{:+.4f}", outcome.find("auc_beside_stock", case, mode, capacity=capacity)),
    )


def _missed_row(outcome: Outcome, mean: Record) -> str:
    way, capacity = (mean.workload, mean.mode), mean.params["capacity"]
    shares = {
        each.params["first"]: each.value
        for each in outcome.records
        if (each.figure, each.workload, each.mode) == ("rows_missing", *way)
        and each.params["capacity"] == capacity
    }
    return row(
        _CASES[mean.workload],
        capacity,
        "{:.1%}".format(shares[0]),
        "{:.1%}".format(sum(share for first, share in shares.items() if first > _MANY)),
        "{:.2f}".format(mean.value),
        words("{:.2g}", outcome.find("relative_l2", *way, capacity=capacity)),
    )


def _spread(form: str, record: Optional[Record]) -> str:
    """The median of the seeds, and the least and the most of them."""
    if record is None:
        return ""
    numbers = (record.value, min(record.runs), max(record.runs))
    rounded = (round(number, _DECIMALS) + 0.0 for number in numbers)  # without a sign of zero
    return "{} ({} to {})".format(*map(form.format, rounded))
