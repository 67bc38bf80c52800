"""How dynamic tables compare with others: the table of docs/benchmarks.md."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tools.bench.dynamic_tables.passes import ADAM, INSERT
from tools.bench.group_lookup_cases import FORWARD, TRAIN
from tools.bench.records import Outcome

HEAD = (
    "| rows | ids | pass | a batch takes | static table / ours | TFRA / ours "
    "| MutableHashTable / ours | of the floor |",
    "|---|---|---|---|---|---|---|---|",
)
_PASSES = {
    FORWARD: "lookup",
    INSERT: "lookup, new ids",
    TRAIN: "training, Adagrad",
    ADAM: "training, Adam",
}
_OURS = "dynamic"
_RATIOS = ("ratio_to_static", "ratio_to_tfra", "ratio_to_mutable", "ratio_over_floor")
Case = Tuple[int, str, str]


def rows(outcome: Outcome) -> List[str]:
    """A row for each case in which our table came to figures, in the order they were measured."""
    found: Dict[Case, Dict[str, float]] = {}
    for record in outcome.records:
        if record.mode == _OURS and "pass" in record.params:
            found.setdefault(_case(record.params), {})[record.figure] = record.value
    return [_row(case, figures) for case, figures in found.items() if "microseconds" in figures]


def _case(params: Dict[str, Any]) -> Case:
    return params["keys"], params["distribution"], params["pass"]


def _row(case: Case, figures: Dict[str, float]) -> str:
    keys, distribution, of_pass = case
    ratios = " | ".join(_text(figures.get(name)) for name in _RATIOS)
    return "| {:,} | {} | {} | {:.2f} ms | {} |".format(
        keys, distribution, _PASSES[of_pass], figures["microseconds"] / 1e3, ratios
    )


def _text(ratio: Optional[float]) -> str:
    return "" if ratio is None else "{:.2g}".format(ratio)
