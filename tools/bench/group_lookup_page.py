"""How one op for many lookups compares with others: a table of docs/benchmarks-tables.md."""

from __future__ import annotations

from typing import Any, Dict, List

from tools.bench.group_lookup_cases import DISTRIBUTIONS, FORWARD, TRAIN
from tools.bench.pages import head, row, words
from tools.bench.records import Outcome

HEAD = head("batch | what | TensorFlow | its safe lookup | FBGEMM | TFRA")
_PASSES = {FORWARD: "lookup", TRAIN: "training, Adagrad"}
_RATIOS = ("ratio_to_tf", "ratio_to_tf_safe", "ratio_to_fbgemm", "ratio_to_tfra")


def rows(outcome: Outcome) -> List[str]:
    """A row for each size and pass, in the order they were measured."""
    cases: Dict[Any, None] = {}
    for each in outcome.records:
        cases[each.params["batch"], each.params["ids_per_row"], each.params["pass"]] = None
    return [_row(outcome, *case) for case in cases]


def _row(outcome: Outcome, batch: int, ids_per_row: int, of_pass: str) -> str:
    size = {"batch": batch, "ids_per_row": ids_per_row, "pass": of_pass}
    ratios = (_of_distributions(outcome, name, size) for name in _RATIOS)
    return row("{:,} x {}".format(batch, ids_per_row), _PASSES[of_pass], *ratios)


def _of_distributions(outcome: Outcome, name: str, size: Dict[str, Any]) -> str:
    found = [
        words("{:.2g}", outcome.find(name, "group_lookup", "fused", **size, distribution=each))
        for each in DISTRIBUTIONS
    ]
    return ", ".join(each for each in found if each)
