"""The table of docs/staleness.md, from accuracy.json."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Tuple

from tools.bench.accuracy.figures import GROUPS
from tools.bench.records import Outcome, Record
from tools.bench.training.sessions import BOTH, EXACT, STOCK

_CASES = {"movielens": "MovieLens 100K", "criteo": "generated, Criteo's format"}
_DECIMALS = 4
_WORDS = {STOCK: "TensorFlow alone", BOTH: "run ahead", EXACT: "run ahead, exact"}


class Trained(NamedTuple):
    """A way in which a data set was trained on."""

    case: str
    mode: str
    capacity: Optional[int]


Figure = Tuple[str, Optional[int]]  # and the least number of updates of a group


def _title(first: int, last: Optional[int]) -> str:
    if last is None:
        return "more"
    return str(first) if first == last else "{} to {}".format(first, last)


HEAD = (
    "| rows | how | `capacity` | AUC | beside TensorFlow alone | missed {} | on average "
    "| relative L2 |".format(" | ".join(_title(*group) for group in GROUPS)),
    "|---|---|---|---|---|{}---|---|".format("---|" * len(GROUPS)),
)


def rows(outcome: Outcome) -> List[str]:
    """A row for each data set and way."""
    found: Dict[Trained, Dict[Figure, Record]] = {}
    for each in outcome.records:
        way = Trained(each.workload, each.mode, each.params.get("capacity"))
        found.setdefault(way, {})[(each.figure, each.params.get("first"))] = each
    return [_row(way, figures) for way, figures in found.items()]


def _row(way: Trained, figures: Dict[Figure, Record]) -> str:
    cells = [_CASES[way.case], _WORDS[way.mode], str(way.capacity or "")]
    cells.append(_spread(figures, "auc", "{:.4f}"))
    cells.append(_spread(figures, "auc_beside_stock", "{:+.4f}"))
    cells += [_text(figures, ("rows_missing", first), "{:.1%}") for first, _ in GROUPS]
    cells.append(_text(figures, ("missed_updates", None), "{:.2f}"))
    cells.append(_text(figures, ("relative_l2", None), "{:.2g}"))
    return "| {} |".format(" | ".join(cells))


def _spread(figures: Dict[Figure, Record], figure: str, form: str) -> str:
    """The median of the seeds, and the least and the most of them."""
    record = figures.get((figure, None))
    if record is None:
        return ""
    numbers = (record.value, min(record.runs), max(record.runs))
    rounded = (round(number, _DECIMALS) + 0.0 for number in numbers)  # without a sign of zero
    return "{} ({} to {})".format(*map(form.format, rounded))


def _text(figures: Dict[Figure, Record], key: Figure, form: str) -> str:
    record = figures.get(key)
    return "" if record is None else form.format(record.value)
