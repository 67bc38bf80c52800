"""How dynamic tables compare with others: the tables of docs/benchmarks-tables.md."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from tools.bench.dynamic_tables.passes import ADAM, INSERT
from tools.bench.group_lookup_cases import FORWARD, TRAIN
from tools.bench.pages import head, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
from tools.bench.records import Outcome, Record

HEAD = head("rows | ids | static table | TFRA | MutableHashTable | of the floor")
WORK_HEAD = head("rows | ids | what | a batch takes | static table | TFRA")
_PASSES = {
    INSERT: "lookup of new ids",
    TRAIN: "training, Adagrad",
    ADAM: "training, Adam",
}
_OURS = "dynamic"
_RATIOS = ("ratio_to_static", "ratio_to_tfra", "ratio_to_mutable", "ratio_over_floor")


def rows(outcome: Outcome) -> List[str]:
    """A row for each case of lookups, in the order they were measured."""
    return [
        row(*_where(each), *(_ratio(outcome, each, name) for name in _RATIOS))
        for each in _of_ours(outcome)
        if each.params["pass"] == FORWARD
    ]


def work_rows(outcome: Outcome) -> List[str]:
    """A row for each case of new ids and of training."""
    return [
        row(
            *_where(each),
            _PASSES[each.params["pass"]],
            "{:.2f} ms".format(each.value / 1e3),
            *(_ratio(outcome, each, name) for name in _RATIOS[:2]),
        )
        for each in _of_ours(outcome)
        if each.params["pass"] in _PASSES
    ]


def dynamic_chart(outcome: Outcome) -> Any:
    """Lookups of others beside ours."""
    names = {"ratio_to_tfra": "TFRA", "ratio_to_mutable": "MutableHashTable"}
    return ratio_chart(
        [
            Bar("{}, {} rows, {} ids".format(names[name], *_where(each)), ratio)
            for name in names
            for each in _of_ours(outcome)
            if each.params["pass"] == FORWARD
            for ratio in [_found(outcome, each, name)]
            if ratio is not None
        ],
        "time of a lookup, over graph_opt's dynamic table (more is better)",
    )


def _of_ours(outcome: Outcome) -> List[Record]:
    return [each for each in outcome.records if (each.figure, each.mode) == ("microseconds", _OURS)]


def _where(ours: Record) -> Tuple[str, str]:
    return "{:,}".format(ours.params["keys"]), ours.params["distribution"]


def _ratio(outcome: Outcome, ours: Record, name: str) -> str:
    return words("{:.2g}", _found(outcome, ours, name))


def _found(outcome: Outcome, ours: Record, name: str) -> Optional[Record]:
    case = {param: ours.params[param] for param in ("keys", "distribution", "pass")}
    return outcome.find(name, ours.workload, _OURS, **case)
