"""The ways in which a script is run."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Sequence

from tools.bench.deeprec.training import REPOSITORY

STOCK = "stock"
FLAGS = "flags"
EV = "ev"
SMART = "smart"
ASYNC = "async"
BOTH = "async_and_smart"
DECODE = "decode_only"

REPORT = "report.json"
_CONFIG = REPOSITORY / "configs/async_and_group_embedding.pbtxt"
_FUSED_AND_AHEAD = ("--config", str(_CONFIG))
_DEEPREC = (
    *("--smartstaged", "True", "--emb_fusion", "True", "--op_fusion", "True"),
    *("--group_embedding", "localized"),
)
_EV = ("--ev", "True", "--ev_filter", "counter", "--ev_elimination", "gstep")


class Mode(NamedTuple):
    """One way.

    Attributes:
      graph_opt: What `graph-opt run` is given before the script; None without graph_opt.
      flags: Of the script.
    """

    graph_opt: Optional[Sequence[str]]
    flags: Sequence[str] = ()

    def arguments(self, script: Path, flags: Sequence[str]) -> List[str]:
        """What the interpreter is given to run a script with more flags."""
        run: List[str] = []
        if self.graph_opt is not None:
            run = ["-m", "graph_opt.cli", "run", "--report", REPORT, *self.graph_opt]
        return [*run, str(script), *flags, *self.flags]


# Of scripts of the zoo. TensorFlow alone trains with Adam, whatever the optimizer's flag says.
ZOO_MODES: Dict[str, Mode] = {
    STOCK: Mode(None, ["--tf"]),
    FLAGS: Mode(_FUSED_AND_AHEAD, [*_DEEPREC, "--optimizer", "adam"]),
    EV: Mode(_FUSED_AND_AHEAD, [*_DEEPREC, *_EV, "--optimizer", "adamasync"]),
}
_ONLY_SMART = ["--set", "do_smart_stage=true", "--set", "do_async_embedding=false"]
# Of decode_csv.py, without tables and with some.
CSV_MODES: Dict[str, Mode] = {
    STOCK: Mode(None),
    SMART: Mode(_ONLY_SMART),
    DECODE: Mode(None, ["--decode_only"]),
}
CSV_LOOKUP_MODES: Dict[str, Mode] = {
    STOCK: Mode(None),
    ASYNC: Mode(_FUSED_AND_AHEAD),
    BOTH: Mode([*_FUSED_AND_AHEAD, "--set", "do_smart_stage=true"]),
    DECODE: Mode(None, ["--decode_only"]),
}
