"""How long requests take: the table of docs/benchmarks-serving.md."""

from __future__ import annotations

from typing import Any, List

from tools.bench.pages import gain, head, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
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


def serving_chart(outcome: Outcome) -> Any:
    """How many times as fast a request is answered."""
    return ratio_chart(
        [
            Bar("{}, {} rows".format(name.replace("`", ""), each.params["rows"]), each)
            for each in outcome.records
            if each.figure == "p50_over_stock"
            and each.mode in _MODES
            and each.params["clients"] == 1
            for name in [_MODES[each.mode].format(each.workload)]
        ],
        "times as fast as TensorFlow alone: median of a client's requests",
    )


def _row(outcome: Outcome, exported: Record) -> str:
    stock = outcome.find("latency_p50_ms", exported.workload, "stock", **exported.params)
    ratio = outcome.find("p50_over_stock", exported.workload, exported.mode, **exported.params)
    return row(
        _MODES[exported.mode].format(exported.workload),
        exported.params["rows"],
        words("{:.2f} ms", stock),
        words("{:.2f} ms", exported),
        gain(ratio),
        "" if exported.floor is None else "{:.2f} ms".format(exported.floor),
    )
