"""The table of docs/benchmarks.md on scripts of DeepRec, from deeprec.json."""

from __future__ import annotations

from typing import List

from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS
from tools.bench.deeprec.modes import ASYNC, BOTH, EV, FLAGS, SMART, STOCK
from tools.bench.pages import head, row, words
from tools.bench.records import Outcome

HEAD = head(
    "script | how | steps/s | times as fast | the machine allows | lookups fused, ahead "
    "| nodes ahead | AUC"
)
_SCRIPTS = {
    "dlrm": "DLRM",
    "wdl": "WDL",
    "deepfm": "DeepFM",
    "din": "DIN",
    "dssm": "DSSM",
    "mmoe": "MMoE",
    CSV: "CSV decoded in the graph",
    CSV_LOOKUPS: "the same, with lookups",
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


def _row(outcome: Outcome, script: str, mode: str) -> str:
    def text(form: str, figure: str) -> str:
        return words(form, outcome.find(figure, script, mode))

    rate = outcome.find("steps_per_s", script, mode)
    if rate is None or rate.floor is None:
        return ""
    fused, ahead = text("{:.0f}", "lookups_fused"), text("{:.0f}", "lookups_ahead")
    lookups = "{}, {} of {}".format(fused or "0", ahead or "0", text("{:.0f}", "lookups"))
    return row(
        _SCRIPTS[script],
        _WORDS[mode],
        words("{:.3g}", rate),
        text("**{:.2f}**", "ratio_to_stock"),
        "{:.3g} steps/s".format(rate.floor),
        lookups if fused or ahead else "",
        text("{:.0f}", "nodes_ahead"),
        text("{:.3f}", "auc"),
    )
