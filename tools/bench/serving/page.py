"""How long requests take: the table of docs/benchmarks.md."""

from __future__ import annotations

from typing import List

from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record

HEAD = head(
    "model | rows of a request | TensorFlow alone | exported | times as fast | dense layers alone"
)
_MODES = {"exported": "{}", "repeated": "{}, `--repeated`"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and size, of one client, in the order they were measured."""
    return [
        _row(outcome, each)
        for each in outcome.records
        if each.figure == "latency_p50_ms" and each.mode in _MODES and each.params["clients"] == 1
    ]


def _row(outcome: Outcome, exported: Record) -> str:
    stock = outcome.find("latency_p50_ms", exported.workload, "stock", **exported.params)
    ratio = outcome.find("p50_over_stock", exported.workload, exported.mode, **exported.params)
    return row(
        _MODES[exported.mode].format(exported.workload),
        exported.params["rows"],
        words("{:.2f} ms", stock),
        words("{:.2f} ms", exported),
        words("**{:.2f}**", ratio),
        "" if exported.floor is None else "{:.2f} ms".format(exported.floor),
    )
