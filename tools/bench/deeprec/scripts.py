"""Whole training scripts as DeepRec's model zoo writes them.

Scripts of the zoo are single files that repeat each other but for the model. Here, what they have
in common is kept once, among the tests that run them, and `write_script` puts a script together.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Dict, Mapping

PARTS = Path(__file__).resolve().parents[3] / "tests/deeprec/scripts"
CRITEO = "criteo"
TAOBAO = "taobao"
AMAZON = "amazon"
DATA_SETS: Dict[str, str] = {
    "dlrm": CRITEO,
    "wdl": CRITEO,
    "deepfm": CRITEO,
    "din": TAOBAO,
    "dssm": TAOBAO,
    "mmoe": TAOBAO,
    "bst": TAOBAO,
    "esmm": TAOBAO,
    "ple": TAOBAO,
    "dien": AMAZON,
}
# TensorFlow 2.15 alone has no `tf.contrib`, which these use even with --tf.
NEED_CONTRIB = ("bst", "dien")
_PARTS_OF_DATA_SETS = {
    CRITEO: ("criteo", "reading"),
    TAOBAO: ("taobao", "reading"),
    AMAZON: ("amazon",),
}
_PARTS_OF_MODELS = {
    "din": ("item_tables", "din"),
    "dien": ("item_tables", "attention_rnn", "dien"),
}
# What a process without graph_opt cannot import.
_OF_DEEPREC = ("tensorflow.core.framework.embedding", "fused_safe_embedding_lookup_sparse\n")
_LOG_HOOK = "    hooks.append(log_hook)\n"
_TURN_HOOK = """    from tools.bench.deeprec.turn_hook import TurnHook

    hooks.append(TurnHook())
"""
_AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})


def write_script(model: str, folder: Path, constants: Mapping[str, str] = _AS_THEY_ARE) -> Path:
    """Writes the script of a model into a folder.

    Args:
      model: One of `DATA_SETS`.
      folder: Where to.
      constants: Values for some of its constants, as Python writes them.

    Raises:
      ValueError: The script has no such constant.
    """
    of_data = _PARTS_OF_DATA_SETS[DATA_SETS[model]]
    of_model = _PARTS_OF_MODELS.get(model, (model,))
    parts = (*of_data, "columns", *of_model, "training", "running", "launching")
    text = "\n\n".join((PARTS / (part + ".py")).read_text("utf-8") for part in parts)
    for name, value in constants.items():
        text = _replaced(text, "^{} = .*$".format(name), "{} = {}".format(name, value))
    script = folder / (model + ".py")
    script.write_text(text, "utf-8")
    return script


def write_stock_script(
    model: str, folder: Path, constants: Mapping[str, str] = _AS_THEY_ARE
) -> Path:
    """Writes the same script for a TensorFlow 2.15 without graph_opt, which needs its flag --tf."""
    script = write_script(model, folder, constants)
    lines = [
        line
        for line in script.read_text("utf-8").splitlines(keepends=True)
        if not (line.startswith("from ") and any(name in line for name in _OF_DEEPREC))
    ]
    version_1 = "import tensorflow.compat.v1 as tf\n\ntf.disable_v2_behavior()\n"
    text = "".join(lines).replace("import tensorflow as tf\n", version_1)
    stock = script.with_name("stock_" + script.name)
    stock.write_text(text, "utf-8")
    return stock


def let_take_turns(script: Path) -> None:
    """Adds the hook of `turn_hook.py` to the session in which a written script trains."""
    text = script.read_text("utf-8")
    script.write_text(_replaced(text, re.escape(_LOG_HOOK), _LOG_HOOK + _TURN_HOOK), "utf-8")


def _replaced(text: str, pattern: str, by: str) -> str:
    changed, times = re.subn(pattern, lambda found: by, text, flags=re.MULTILINE)
    if times != 1:
        raise ValueError("the script has {} places like '{}', not 1".format(times, pattern))
    return changed
