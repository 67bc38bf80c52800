"""How dynamic tables compare with others: the table of docs/benchmarks.md."""

from __future__ import annotations

from typing import List

from tools.bench.dynamic_tables.passes import ADAM, INSERT
from tools.bench.group_lookup_cases import FORWARD, TRAIN
from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record

HEAD = head(
    "rows | ids | pass | a batch takes | static table / ours | TFRA / ours "
    "| MutableHashTable / ours | of the floor"
)
_PASSES = {
    FORWARD: "lookup",
    INSERT: "lookup, new ids",
    TRAIN: "training, Adagrad",
    ADAM: "training, Adam",
}
_OURS = "dynamic"
_RATIOS = ("ratio_to_static", "ratio_to_tfra", "ratio_to_mutable", "ratio_over_floor")


def rows(outcome: Outcome) -> List[str]:
    """A row for each case in which our table came to figures, in the order they were measured."""
    return [
        _row(outcome, each)
        for each in outcome.records
        if (each.figure, each.mode) == ("microseconds", _OURS)
    ]


def _row(outcome: Outcome, ours: Record) -> str:
    case = {name: ours.params[name] for name in ("keys", "distribution", "pass")}
    return row(
        "{:,}".format(case["keys"]),
        case["distribution"],
        _PASSES[case["pass"]],
        "{:.2f} ms".format(ours.value / 1e3),
        *(words("{:.2g}", outcome.find(name, ours.workload, _OURS, **case)) for name in _RATIOS),
    )
