"""Training with Adam: the table of docs/benchmarks-tables.md, and the README's sentence."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from tools.bench.pages import gain, head, place, row, words
from tools.bench.records import Outcome
from tools.bench.training.sessions import DEFERRED, STOCK

HEAD = head("model | its tables | rows of each | graph_opt | times as fast | of `lazy`'s speed")
_MODELS = {"dlrm": "DLRM", "wide": "wide, 40 columns"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each scenario that came to figures, in the order they were measured."""
    places = dict.fromkeys(
        (each.workload, each.params["rows"], each.params.get("delay_ms"))
        for each in outcome.records
        if (each.figure, each.mode) == ("steps_per_s", STOCK)
    )
    return [line for line in (_row(outcome, *where) for where in places) if line]


def sentence(outcome: Outcome, machine: Dict[str, Any]) -> str:
    """What DLRM gains with its tables in the process, of each of their sizes.

    Raises:
        ValueError: it was not measured.
    """
    gains = [
        "**{:.2g}** times with {:,}".format(each.value, each.params["rows"])
        for each in outcome.records
        if (each.figure, each.mode, each.workload) == ("ratio_to_stock", DEFERRED, "dlrm")
        and "delay_ms" not in each.params
    ]
    if not gains:
        raise ValueError("no figure of dlrm with its tables in the process")
    gains[0] = gains[0].replace("times", "times as fast") + " rows in each table"
    said = "With Adam on {cores} cores ({cpu}), DLRM trains {gains}."
    return said.format(gains=", ".join(gains), **machine)


def _row(outcome: Outcome, workload: str, count: int, delay_ms: Optional[float]) -> str:
    found = [
        outcome.find(figure, workload, mode, rows=count, delay_ms=delay_ms)
        for figure, mode in (
            ("steps_per_s", DEFERRED),
            ("ratio_to_stock", DEFERRED),
            ("ratio_to_lazy", DEFERRED),
        )
    ]
    if None in found:
        return ""
    rate, ratio, beside_lazy = found
    return row(
        _MODELS[workload],
        place(delay_ms),
        "{:,}".format(count),
        words("{:.3g} steps/s", rate),
        gain(ratio),
        words("{:.2f}", beside_lazy),
    )
