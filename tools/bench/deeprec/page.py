"""The table of docs/benchmarks.md on scripts of DeepRec, from deeprec.json."""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from tools.bench.deeprec.figures import CSV, CSV_LOOKUPS
from tools.bench.deeprec.modes import ASYNC, BOTH, EV, FLAGS, SMART, STOCK
from tools.bench.records import Outcome

HEAD = (
    "| script | how | steps/s | times as fast | the machine allows | lookups fused, ahead "
    "| nodes ahead | AUC |",
    "|---|---|---|---|---|---|---|---|",
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
Values = Dict[Tuple[str, str, str], Tuple[float, Optional[float]]]


def rows(outcome: Outcome) -> List[str]:
    """A row for each script and way in which it was trained."""
    found: Values = {
        (each.workload, each.mode, each.figure): (each.value, each.floor)
        for each in outcome.records
    }
    lines = (_row(found, script, mode) for script in _SCRIPTS for mode in _WORDS)
    return [line for line in lines if line is not None]


def _row(found: Values, script: str, mode: str) -> Optional[str]:
    def text(form: str, figure: str) -> str:
        value = found.get((script, mode, figure))
        return "" if value is None else form.format(value[0])

    rate, best = found.get((script, mode, "steps_per_s"), (0.0, None))
    if best is None:
        return None
    fused, ahead = text("{:.0f}", "lookups_fused"), text("{:.0f}", "lookups_ahead")
    lookups = "{}, {} of {}".format(fused or "0", ahead or "0", text("{:.0f}", "lookups"))
    cells = [
        _SCRIPTS[script],
        _WORDS[mode],
        "{:.3g}".format(rate),
        text("**{:.2f}**", "ratio_to_stock"),
        "{:.3g} steps/s".format(best),
        lookups if fused or ahead else "",
        text("{:.0f}", "nodes_ahead"),
        text("{:.3f}", "auc"),
    ]
    return "| {} |".format(" | ".join(cells))
