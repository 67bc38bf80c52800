"""Which goals a benchmark missed: tables of docs/benchmarks*.md."""

from __future__ import annotations

from typing import Callable, List, Mapping

from tools.bench.collectives.page import WAYS
from tools.bench.pages import gain, head, place, row
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.training.sessions import (
    ASYNC,
    BOTH,
    EXACT,
    FUSED,
    PIPELINED,
    PIPELINED_MODES,
    RETURNED,
)
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = head("goal missed | reached | goal")
_FIGURES: Mapping[str, str] = {
    "ratio_to_stock": "{} times as fast as TensorFlow alone",
    "ratio_to_fused": "{} times as fast as fused",
    "share_of_async_gain": "{} of the gain",
    "ratio_to_lazy": "{} of `lazy`'s speed",
    "growth_exponent": "a step's time grows with the rows to the power of {}",
    "ratio_to_horovod": "{} times as fast as Horovod",
    "ratio_to_sharded": "{} times as fast as sharded tables",
    "ratio_to_unsharded": "{} times as fast as not sharded",
    "ratio_to_distributed_embeddings": "{} times as fast as distributed-embeddings' messages",
    "ratio_to_sok_traffic": "{} of SparseOperationKit's bytes",
    "messages_per_step": "{} messages a step",
}
_SESSIONS = {
    ASYNC: "run ahead, not fused",
    FUSED: "fused",
    BOTH: "fused and ahead",
    EXACT: "exact",
    RETURNED: "returned",
    PIPELINED: "pipelined",
}


def training_rows(outcome: Outcome) -> List[str]:
    """The missed goals of one worker, in the modes that all places of tables have."""
    return _missed(outcome, _trained, lambda record: not (_of_cluster(record) or _of_exact(record)))


def cluster_rows(outcome: Outcome) -> List[str]:
    """Those of several workers, and of modes in which dense weights travel ahead."""
    return _missed(outcome, _trained, _of_cluster)


def exact_rows(outcome: Outcome) -> List[str]:
    """Those of exact rows, and of the ids that these were measured with."""
    return _missed(outcome, _trained, _of_exact)


def adam_rows(outcome: Outcome) -> List[str]:
    """Those of adam.json."""
    return _missed(outcome, _with_adam)


def ranks_rows(outcome: Outcome) -> List[str]:
    """Those of collectives.json."""
    return _missed(outcome, _on_ranks)


def _of_cluster(record: Record) -> bool:
    return record.mode in PIPELINED_MODES or "workers" in record.params


def _of_exact(record: Record) -> bool:
    return record.mode == EXACT or "zipf" in record.params


def _missed(
    outcome: Outcome,
    named: Callable[[Record], List[str]],
    shown: Callable[[Record], bool] = lambda record: True,
) -> List[str]:
    order = list(WORKLOADS)
    missed = [record for record in outcome.records if not record.is_met and shown(record)]
    missed.sort(key=lambda record: order.index(record.workload))
    return [_row(record, named(record)) for record in missed] or [row("none", "", "")]


def _row(record: Record, names: List[str]) -> str:
    assert record.goal is not None
    reached = _FIGURES[record.figure].format(gain(record))
    sign = {">=": "≥", "<=": "≤"}[record.goal.op]
    return row(", ".join(names), reached, "{} {:.3g}".format(sign, record.goal.value))


def _trained(record: Record) -> List[str]:
    names = [WORKLOADS[record.workload], place(record.params.get("delay_ms"))]
    zipf = record.params.get("zipf")
    if zipf is not None:
        names.append("Zipf {:g}".format(zipf) if zipf else "uniform ids")
    if "workers" in record.params:
        names.append("{} workers".format(record.params["workers"]))
    return [*names, _SESSIONS[record.mode]]


def _with_adam(record: Record) -> List[str]:
    names = [WORKLOADS[record.workload], place(record.params.get("delay_ms"))]
    rows = record.params.get("rows")
    return names if rows is None else [*names, "{:,} rows".format(rows)]


def _on_ranks(record: Record) -> List[str]:
    names = [WORKLOADS[record.workload], WAYS[record.mode]]
    zipf = record.params.get("zipf")
    return names if zipf in (None, ZIPF_EXPONENT) else [*names, "Zipf {:g}".format(zipf)]
