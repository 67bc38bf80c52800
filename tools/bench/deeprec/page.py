"""The table of docs/benchmarks-deeprec.md on scripts of DeepRec, from deeprec.json."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS
from tools.bench.deeprec.modes import ASYNC, BOTH, EV, FLAGS, SMART, STOCK
from tools.bench.pages import allowed_ratio, gain, head, row, words
from tools.bench.ratio_chart import Bar, ratio_chart
from tools.bench.records import Outcome, Record

HEAD = head("script | how | steps/s | times as fast | lookups and nodes | AUC")
_SCRIPTS = {
    "dlrm": "DLRM",
    "wdl": "WDL",
    "deepfm": "DeepFM",
    "din": "DIN",
    "dssm": "DSSM",
    "mmoe": "MMoE",
    CSV: "CSV decoded in the graph",
    CSV_LOOKUPS: "CSV and lookups",
}
_WORDS = {
    STOCK: "TensorFlow alone",
    FLAGS: "DeepRec's flags",
    EV: "and `--ev`",
    SMART: "`do_smart_stage`",
    ASYNC: "`do_async_embedding`",
    BOTH: "and `do_smart_stage`",
}


def rows(outcome: Outcome) -> List[str]:
    """A row for each script and way in which it was trained."""
    lines = (_row(outcome, script, mode) for script in _SCRIPTS for mode in _WORDS)
    return [line for line in lines if line]


def deeprec_chart(outcome: Outcome) -> Any:
    """How many times as fast each script trains."""
    return ratio_chart(
        [
            Bar(
                "{}, {}".format(
                    _SCRIPTS[script], _WORDS[mode].replace("`", "").replace("and ", "with ")
                ),
                ratio,
                at_most,
            )
            for script in _SCRIPTS
            for mode in _WORDS
            for ratio, at_most in [_gain(outcome, script, mode)]
            if ratio is not None
        ],
        "times as fast as TensorFlow alone",
    )


def _row(outcome: Outcome, script: str, mode: str) -> str:
    rate = outcome.find("steps_per_s", script, mode)
    if rate is None or rate.floor is None:
        return ""
    ratio, at_most = _gain(outcome, script, mode)
    return row(
        _SCRIPTS[script],
        _WORDS[mode],
        words("{:.3g}", rate),
        gain(ratio, at_most),
        _moved(outcome, script, mode),
        words("{:.3f}", outcome.find("auc", script, mode)),
    )


def _gain(outcome: Outcome, script: str, mode: str) -> Tuple[Optional[Record], Optional[float]]:
    ratio = outcome.find("ratio_to_stock", script, mode)
    rate, stock = (outcome.find("steps_per_s", script, each) for each in (mode, STOCK))
    return ratio, allowed_ratio(rate, stock)


def _moved(outcome: Outcome, script: str, mode: str) -> str:
    fused, ahead, nodes, lookups = (
        outcome.value(figure, script, mode)
        for figure in ("lookups_fused", "lookups_ahead", "nodes_ahead", "lookups")
    )
    said = []
    if fused and lookups:
        said.append("{:.0f} of {:.0f} fused".format(fused, lookups))
    if ahead:
        said.append("{:.0f} ahead".format(ahead))
    if nodes:
        said.append("{:.0f} nodes ahead".format(nodes))
    return ", ".join(said)
