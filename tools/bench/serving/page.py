"""How long requests take, and the memory of servers: the tables of docs/benchmarks-serving.md."""

from __future__ import annotations

from typing import Any, List

from tools.bench.pages import gain, head, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
from tools.bench.records import Outcome, Record

HEAD = head(
    "model | rows of a request | TensorFlow alone → exported | times as fast | by Python"
    " | dense layers alone"
)
FROZEN_HEAD = head(
    "frozen graph | rows of a request | TensorFlow alone → exported | times as fast"
    " | in a session, by Python"
)
MEMORY_HEAD = head("tables | servers | memory of all | of it tables | tables, times those of one")
_MODES = {
    "exported": "{}",
    "repeated": "{}, `--repeated`",
    "float16": "{}, `--table-dtype float16`",
    "int8": "{}, `--table-dtype int8`",
}
_FROZEN = "_frozen"  # behind the name of a model
_TABLES = {"exported": "variables", "mapped": "mapped, `--map-tables`"}


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and size, of one client, in the order they were measured."""
    return [_row(outcome, each) for each in _of_one_client(outcome, "latency_p50_ms")]


def _of_one_client(outcome: Outcome, figure: str, is_frozen: bool = False) -> List[Record]:
    """Those of TensorFlow's C API; where there are none, those of Python."""
    found = [
        each
        for each in outcome.records
        if each.figure == figure and each.mode in _MODES and each.params["clients"] == 1
        if each.workload.endswith(_FROZEN) == is_frozen
    ]
    return [each for each in found if each.params.get("client") == "c"] or found


def frozen_rows(outcome: Outcome) -> List[str]:
    """A row for each frozen graph and size: exported, and in a session of its process."""
    return [
        row(
            each.workload[: -len(_FROZEN)],
            each.params["rows"],
            _times(outcome, each),
            gain(outcome.find("p50_over_stock", each.workload, each.mode, **each.params)),
            gain(outcome.find("p50_over_stock", each.workload, "session", **by_python)),
        )
        for each in _of_one_client(outcome, "latency_p50_ms", is_frozen=True)
        for by_python in [{**each.params, "client": "python"}]
    ]


def memory_rows(outcome: Outcome) -> List[str]:
    """A row for each kind of tables and number of servers."""
    return [_memory(outcome, each) for each in outcome.records if each.figure == "memory_mb"]


def serving_chart(outcome: Outcome) -> Any:
    """How many times as fast a request is answered."""
    return ratio_chart(
        [
            Bar("{}, {}".format(name.replace("`", ""), size), each)
            for each in _of_one_client(outcome, "p50_over_stock")
            for name in [_MODES[each.mode].format(each.workload)]
            for count in [each.params["rows"]]
            for size in ["1 row" if count == 1 else "{} rows".format(count)]
        ],
        "times as fast as TensorFlow alone: median of a client's requests",
    )


def _memory(outcome: Outcome, of_all: Record) -> str:
    where = of_all.workload, of_all.mode
    servers = of_all.params["servers"]
    ratio = outcome.find("tables_two_over_one", *where) if servers == 2 else None
    return row(
        _TABLES[of_all.mode],
        servers,
        words("{:,.0f} MB", of_all),
        words("{:,.0f} MB", outcome.find("tables_mb", *where, **of_all.params)),
        gain(ratio),
    )


def _times(outcome: Outcome, ours: Record) -> str:
    """Latencies of stock and ours, with the same kind of client."""
    stock = outcome.find("latency_p50_ms", ours.workload, "stock", **ours.params)
    return words("{:.2f} → ", stock) + words("{:.2f} ms", ours)


def _row(outcome: Outcome, exported: Record) -> str:
    where, params = (exported.workload, exported.mode), exported.params
    ratio = outcome.find("p50_over_stock", *where, **params)
    by_python = outcome.find("p50_over_stock", *where, **{**params, "client": "python"})
    return row(
        _MODES[exported.mode].format(exported.workload),
        exported.params["rows"],
        _times(outcome, exported),
        gain(ratio),
        words("{:.2f}", by_python),
        "" if exported.floor is None else "{:.2f} ms".format(exported.floor),
    )
