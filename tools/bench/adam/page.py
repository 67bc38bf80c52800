"""How fast models train with Adam: the table of docs/benchmarks.md, and the README's sentence."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from tools.bench.records import Outcome, Record
from tools.bench.training.sessions import DEFERRED, STOCK

HEAD = (
    "| model | its tables | rows of each | TensorFlow alone | graph_opt | times as fast "
    "| of `lazy`'s speed |",
    "|---|---|---|---|---|---|---|",
)
_MODELS = {"dlrm": "DLRM", "wide": "wide, 40 columns"}
Key = Tuple[str, str, str, int, Optional[float]]


def rows(outcome: Outcome) -> List[str]:
    """A row for each scenario that came to figures, in the order they were measured."""
    found = {_key(each): each.value for each in outcome.records if "rows" in each.params}
    places = [key[2:] for key in found if key[:2] == ("steps_per_s", STOCK)]
    lines = (_row(found, *place) for place in places)
    return [line for line in lines if line is not None]


def sentence(outcome: Outcome, machine: Dict[str, Any]) -> str:
    """What DLRM gains with its tables in the process, of each of their sizes.

    Raises:
        ValueError: it was not measured.
    """
    gains = [
        "**{:.2g}** with {:,}".format(each.value, each.params["rows"])
        for each in outcome.records
        if (each.figure, each.mode, each.workload) == ("ratio_to_stock", DEFERRED, "dlrm")
        and "delay_ms" not in each.params
    ]
    if not gains:
        raise ValueError("no figure of dlrm with its tables in the process")
    gains[0] += " rows in each table"
    words = "How many times as fast DLRM trains on {cores} cores ({cpu}): {gains}."
    return words.format(gains=", ".join(gains), **machine)


def _row(
    found: Dict[Key, float], workload: str, count: int, delay_ms: Optional[float]
) -> Optional[str]:
    place = (workload, count, delay_ms)
    stock = found.get(("steps_per_s", STOCK, *place))
    deferred = found.get(("steps_per_s", DEFERRED, *place))
    to_stock = found.get(("ratio_to_stock", DEFERRED, *place))
    to_lazy = found.get(("ratio_to_lazy", DEFERRED, *place))
    if stock is None or deferred is None or to_stock is None or to_lazy is None:
        return None
    words = "| {} | {} | {:,} | {:.3g} steps/s | {:.3g} steps/s | **{:.3g}** | {:.2f} |"
    return words.format(
        _MODELS[workload], _words(delay_ms), count, stock, deferred, to_stock, to_lazy
    )


def _key(record: Record) -> Key:
    params = record.params
    return (record.figure, record.mode, record.workload, params["rows"], params.get("delay_ms"))


def _words(delay_ms: Optional[float]) -> str:
    return "in the process" if delay_ms is None else "on a server {:g} ms away".format(delay_ms)
