"""The tables of docs/benchmarks-ranks.md, from collectives.json."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from tools.bench.collectives.modes import (
    ALONE,
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
from tools.bench.collectives.settings import RANKS
from tools.bench.pages import allowed_ratio, gain, head, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
from tools.bench.records import Outcome, Record
from tools.bench.training.chart_style import WORKLOADS
from tools.bench.workloads.wide.data import ZIPF_EXPONENT

HEAD = head("model | how | steps/s | times Horovod | CPU of a step | a rank sends")
ALONE_HEAD = head("model | session | not sharded → sharded | times as fast")
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
WAYS = {  # Short: what they leave of the width is the axis.
    **_WORDS,
    HOROVOD_DENSE: "Horovod, sparse_as_dense",
    SHARD_TABLES: "Horovod with shard_tables",
    THEIR_DE: "distributed-embeddings' messages",
    OURS_DE: "DistributedEmbedding",
    OURS_DE_FUSED: "DistributedEmbedding, fused",
}
_SESSIONS = {SHARDED: "TensorFlow alone", FUSED: "fused"}
_ZIPFS = (None, ZIPF_EXPONENT)
_MEGA = 1e6
_MILLI = 1e3


def rows(outcome: Outcome) -> List[str]:
    """A row for each model and mode that was timed."""
    lines = (_row(outcome, model, mode) for model in WORKLOADS for mode in _WORDS)
    return [line for line in lines if line]


def alone_rows(outcome: Outcome) -> List[str]:
    """A row for each model and session of a rank that is alone."""
    lines = (_alone(outcome, model, mode) for model in WORKLOADS for mode in ALONE)
    return [line for line in lines if line]


def collectives_chart(outcome: Outcome) -> Any:
    """Each way beside Horovod's."""
    return ratio_chart(
        [
            Bar("{}, {}".format(WORKLOADS[model], label), ratio, at_most)
            for model in WORKLOADS
            for mode, label in WAYS.items()
            for ratio, at_most in [_gain(outcome, model, mode)]
            if ratio is not None
        ],
        "steps a second, over Horovod with whole tables (more is better)",
    )


def _row(outcome: Outcome, model: str, mode: str) -> str:
    rate, used = (_found(outcome, each, model, mode) for each in ("steps_per_s", "cpu_s_per_step"))
    if rate is None or used is None:
        return ""
    return row(
        WORKLOADS[model],
        _WORDS[mode],
        words("{:.3g}", rate),
        gain(*_gain(outcome, model, mode)) or "1",
        "{:.0f} ms".format(used.value * _MILLI),
        _sent(outcome, model, mode),
    )


def _alone(outcome: Outcome, model: str, mode: str) -> str:
    ratio = outcome.find("ratio_to_unsharded", model, mode, ranks=1)
    if ratio is None:
        return ""
    rates = (outcome.find("steps_per_s", model, each, ranks=1) for each in (ALONE[mode], mode))
    steps = " → ".join(words("{:.3g}", rate) for rate in rates)
    return row(WORKLOADS[model], _SESSIONS[mode], steps + " steps/s", gain(ratio))


def _sent(outcome: Outcome, model: str, mode: str) -> str:
    # Fused updates send the same messages.
    unfused = OURS_DE if mode == OURS_DE_FUSED else SHARDED
    sent = _found(outcome, "bytes_per_step", model, mode)
    sent = sent or _found(outcome, "bytes_per_step", model, unfused)
    messages = _found(outcome, "messages_per_step", model, mode)
    said = [words("{:.0f} messages", messages)]
    said.append("" if sent is None else "{:.3g} MB".format(sent.value / _MEGA))
    return ", ".join(one for one in said if one)


def _gain(outcome: Outcome, model: str, mode: str) -> Tuple[Optional[Record], Optional[float]]:
    ratio = _found(outcome, "ratio_to_horovod", model, mode)
    rate, stock = (_found(outcome, "steps_per_s", model, each) for each in (mode, HOROVOD))
    return ratio, allowed_ratio(rate, stock)


def _found(outcome: Outcome, figure: str, model: str, mode: str) -> Optional[Record]:
    records = [outcome.find(figure, model, mode, zipf=zipf, ranks=RANKS) for zipf in _ZIPFS]
    return records[0] or records[1]
