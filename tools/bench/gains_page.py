"""What each option gained: the table of docs/choose-options.md, from several benchmarks."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tools.bench.collectives.modes import SHARD_TABLES
from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS
from tools.bench.deeprec.modes import BOTH as ASYNC_AND_SMART
from tools.bench.deeprec.modes import SMART
from tools.bench.pages import head, row
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import (
    BOTH,
    DEFERRED,
    EXACT,
    FUSED,
    PIPELINED,
    RETURNED,
)

HEAD = head("where the time goes | set | compared with | times as fast | figures")
_STOCK, _AWAY = "TensorFlow alone", {1.0, 3.0}
_USUAL: Dict[str, Any] = {"workers": {None}, "zipf": {None}}
_SCRIPTS = {CSV: "without tables", CSV_LOOKUPS: "with tables"}
_TUNED = dict.fromkeys(("source_bound", "main_bound", "bursts", "server"), "four models")
_SERVED = {"wide": "wide", "wide_examples": "wide, as examples", "dlrm": "DLRM", "din": "DIN"}


class Gain(NamedTuple):
    """One row.

    Attributes:
      where: What takes the time.
      options: What to set.
      against: What it is compared with.
      bench: The benchmark that has the figures.
      picks: Figure and mode of the records.
      models: The words for each workload; others are left out.
      params: Values that the records may have for a parameter; None is that they have none.
    """

    where: str
    options: str
    against: str
    bench: str
    picks: Sequence[Tuple[str, str]]
    models: Dict[str, str]
    params: Optional[Dict[str, Any]] = None

    def shows(self, record: Record) -> bool:
        """Whether a record is among its figures."""
        params = self.params or {}
        allowed = all(record.params.get(name) in each for name, each in params.items())
        is_picked = (record.figure, record.mode) in self.picks
        return is_picked and record.workload in self.models and allowed


GAINS = (
    Gain(
        "many lookups, of tables in the process or on servers",
        "`do_group_embedding`",
        _STOCK,
        "train",
        [("ratio_to_stock", FUSED)],
        WORKLOADS,
        _USUAL,
    ),
    Gain(
        "lookups that the step waits for",
        "`do_group_embedding`, `do_async_embedding`",
        _STOCK,
        "train",
        [("ratio_to_stock", BOTH)],
        WORKLOADS,
        _USUAL,
    ),
    Gain(
        "round trips for dense weights, 1 to 3 ms each way",
        "both, `pipeline_dense`, `dense_staleness: 0`",
        _STOCK,
        "train",
        [("ratio_to_stock", RETURNED)],
        WORKLOADS,
        {"delay_ms": _AWAY},
    ),
    Gain(
        "the same, if weights may miss an update",
        "both, `pipeline_dense`",
        _STOCK,
        "train",
        [("ratio_to_stock", PIPELINED)],
        WORKLOADS,
        {"delay_ms": _AWAY},
    ),
    Gain(
        "Adam over tables of 20,000 to 1,000,000 rows",
        "`do_group_embedding`",
        _STOCK,
        "adam",
        [("ratio_to_stock", DEFERRED)],
        {"wide": "wide, 40 columns", "dlrm": "DLRM"},
    ),
    Gain(
        "text that the graph decodes",
        "`do_smart_stage`",
        "the same without it",
        "deeprec",
        [("ratio_to_stock", SMART), ("ratio_to_async", ASYNC_AND_SMART)],
        _SCRIPTS,
    ),
    Gain(
        "gradients of tables that both of two ranks hold whole",
        "`shard_tables`",
        "Horovod alone",
        "collectives",
        [("ratio_to_horovod", SHARD_TABLES)],
        WORKLOADS,
    ),
    Gain(
        "the same",
        "[sharded tables](sharding.md), `do_group_embedding`, `do_async_embedding`",
        "Horovod alone",
        "collectives",
        [("ratio_to_horovod", BOTH)],
        WORKLOADS,
    ),
    Gain(
        "lookups, and no row may miss an update",
        "`do_group_embedding`, `do_async_embedding`, `exact`",
        "fused alone",
        "train",
        [("ratio_to_fused", EXACT)],
        WORKLOADS,
    ),
    Gain(
        "threads and capacity that you would have to find",
        "`threads_num: -1`, `capacity: -1`",
        "the best of six fixed settings",
        "tuning",
        [("ratio_to_best_fixed", "tuned")],
        _TUNED,
    ),
    Gain(
        "requests to a served model, 1 to 512 rows",
        "`graph-opt export`",
        _STOCK,
        "serving",
        [("p50_over_stock", "exported")],
        _SERVED,
        {"clients": {1}, "client": {"c"}},
    ),
)


def rows(read: Callable[[str], Outcome]) -> List[str]:
    """A row for each of `GAINS` that was measured.

    Args:
      read: Gives what a benchmark found, by its name.
    """
    found = (_row(gain, read(gain.bench)) for gain in GAINS)
    return [line for line in found if line]


def _row(gain: Gain, outcome: Outcome) -> str:
    found: Dict[str, List[float]] = {}
    for record in outcome.records:
        if gain.shows(record):
            found.setdefault(gain.models[record.workload], []).append(record.value)
    if not found:
        return ""
    shown = [name for name in dict.fromkeys(gain.models.values()) if name in found]
    gains = ", ".join("{} **{}**".format(name, _span(found[name])) for name in shown)
    link = "[{0}.json](benchmarks/{0}.json)".format(gain.bench)
    return row(gain.where, gain.options, gain.against, gains, link)


def _span(values: Sequence[float]) -> str:
    ends = ["{:.3g}".format(each) if each >= 10 else "{:.2f}".format(each) for each in values]
    least, most = (ends[values.index(end)] for end in (min(values), max(values)))
    return least if least == most else "{} to {}".format(least, most)
