"""The table of docs/benchmarks.md on training with several ranks, from collectives.json."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from tools.bench.collectives.modes import (
    BOTH,
    FUSED,
    HOROVOD,
    HOROVOD_DENSE,
    OURS_DE,
    OURS_DE_FUSED,
    SHARD_TABLES,
    SHARDED,
    THEIR_DE,
)
from tools.bench.records import Outcome
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = (
    "| model | how | steps/s | times Horovod | CPU | messages | bytes | the machine allows |",
    "|---|---|---|---|---|---|---|---|",
)
_MODELS = {"wide": "wide", "dlrm": "DLRM"}
_WORDS = {
    HOROVOD: "Horovod, every rank has all tables",
    HOROVOD_DENSE: "the same, `sparse_as_dense`",
    SHARDED: "sharded tables",
    FUSED: "sharded tables, fused",
    BOTH: "sharded tables, fused and ahead",
    SHARD_TABLES: "the script with Horovod, its tables sharded by `shard_tables`",
    THEIR_DE: "distributed-embeddings' messages, TensorFlow's ops",
    OURS_DE: "`DistributedEmbedding` of graph_opt",
    OURS_DE_FUSED: "the same, fused",
}
_MEGA = 1e6
_MILLI = 1e3
Values = Dict[Tuple[str, str, str], Tuple[float, Optional[float]]]


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode that was timed."""
    found: Values = {
        (each.workload, each.mode, each.figure): (each.value, each.floor)
        for each in outcome.records
        if each.params.get("zipf", ZIPF_EXPONENT) == ZIPF_EXPONENT
    }
    lines = (_row(found, model, mode) for model in _MODELS for mode in _WORDS)
    return [line for line in lines if line is not None]


def _row(found: Values, model: str, mode: str) -> Optional[str]:
    rate, best = found.get((model, mode, "steps_per_s"), (None, None))
    if rate is None:
        return None
    quotient, _ = found.get((model, mode, "ratio_to_horovod"), (1.0, None))
    used, _ = found[model, mode, "cpu_s_per_step"]
    messages, _ = found[model, mode, "messages_per_step"]
    # Fused updates send the same messages.
    unfused = OURS_DE if mode == OURS_DE_FUSED else SHARDED
    sent = found.get((model, mode, "bytes_per_step")) or found.get(
        (model, unfused, "bytes_per_step")
    )
    size = "" if sent is None else "{:.3g} MB".format(sent[0] / _MEGA)
    allowed = "" if best is None else "{:.3g} steps/s".format(best)
    return "| {} | {} | {:.3g} | **{:.2f}** | {:.0f} ms | {:.0f} | {} | {} |".format(
        _MODELS[model], _WORDS[mode], rate, quotient, used * _MILLI, messages, size, allowed
    )
