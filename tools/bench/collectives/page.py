"""The table of docs/benchmarks.md on training with several ranks, from collectives.json."""

from __future__ import annotations

from typing import List, Optional

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
from tools.bench.pages import head, row, words
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = head("model | how | steps/s | times Horovod | CPU | messages | bytes | the machine allows")
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
_ZIPFS = (None, ZIPF_EXPONENT)
_MEGA = 1e6
_MILLI = 1e3


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode that was timed."""
    lines = (_row(outcome, model, mode) for model in WORKLOADS for mode in _WORDS)
    return [line for line in lines if line]


def _row(outcome: Outcome, model: str, mode: str) -> str:
    def found(figure: str, of_mode: str = mode) -> Optional[Record]:
        records = [outcome.find(figure, model, of_mode, zipf=zipf) for zipf in _ZIPFS]
        return records[0] or records[1]

    rate = found("steps_per_s")
    used, messages = found("cpu_s_per_step"), found("messages_per_step")
    if rate is None or used is None:
        return ""
    # Fused updates send the same messages.
    unfused = OURS_DE if mode == OURS_DE_FUSED else SHARDED
    sent = found("bytes_per_step") or found("bytes_per_step", unfused)
    return row(
        WORKLOADS[model],
        _WORDS[mode],
        words("{:.3g}", rate),
        words("**{:.2f}**", found("ratio_to_horovod")) or "**1.00**",
        "{:.0f} ms".format(used.value * _MILLI),
        words("{:.0f}", messages),
        "" if sent is None else "{:.3g} MB".format(sent.value / _MEGA),
        "" if rate.floor is None else "{:.3g} steps/s".format(rate.floor),
    )
