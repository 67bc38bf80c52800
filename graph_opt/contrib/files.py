"""Files of `tf.contrib` that scripts import names from, and errors for names that are not here."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, Mapping, Sequence

_ROOT = "tensorflow.contrib"
_OURS = "graph_opt.contrib"
# Parts whose modules have other names here.
MODULES = {"util": "graph_opt.contrib.tensor_protos"}
# Below each part, the folders and files that it was made of. Each leads to the part as a whole.
_FILES: Mapping[str, Sequence[str]] = {
    "estimator": ("python", "python.estimator", "python.estimator.early_stopping"),
    "feature_column": (
        "python",
        "python.feature_column",
        "python.feature_column.sequence_feature_column",
    ),
    "framework": (
        "python",
        "python.framework",
        "python.framework.checkpoint_utils",
        "python.ops",
        "python.ops.arg_scope",
        "python.ops.variables",
    ),
    "kafka": ("python", "python.ops", "python.ops.kafka_dataset_ops"),
    "layers": ("python", "python.layers", "python.layers.layers"),
    "lookup": ("lookup_ops", "python", "python.lookup", "python.lookup.lookup_ops"),
    "metrics": ("python", "python.ops", "python.ops.metric_ops"),
    "opt": ("python", "python.training", "python.training.lazy_adam_optimizer"),
    "predictor": (
        "core_estimator_predictor",
        "predictor_factories",
        "python",
        "saved_model_predictor",
    ),
    "rnn": (
        "python",
        "python.ops",
        "python.ops.core_rnn_cell",
        "python.ops.core_rnn_cell_impl",
        "python.ops.rnn",
        "python.ops.rnn_cell",
    ),
    "training": (
        "python",
        "python.training",
        "python.training.device_setter",
        "python.training.hparam",
    ),
}


def module_names() -> Dict[str, str]:
    """From names that scripts import modules by to those of graph_opt's."""
    names = {_ROOT: _OURS}
    names.update({"{}.{}".format(_ROOT, part): module for part, module in MODULES.items()})
    for part, files in _FILES.items():
        for file in files:
            names["{}.{}.{}".format(_ROOT, part, file)] = "{}.{}".format(_OURS, part)
    return names


def missing_from(module: str, instead: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a part of `tf.contrib`.

    It gives the module itself for the names of its files, so that `from
    tensorflow.contrib.rnn.python.ops import core_rnn_cell` works, and says what to use in place of
    all else.

    Args:
      module: Name of the part's module.
      instead: What to use, by name; of names that begin alike, by a beginning that ends with `*`.
        By `*` alone, where to look for others.
    """
    parts = {ours: part for part, ours in MODULES.items()}
    part = parts.get(module, module.rpartition(".")[2])
    files = {file.rpartition(".")[2] for file in _FILES.get(part, ())} - {"python"}

    def find(name: str) -> Any:
        if name in files:
            return sys.modules[module]
        raise AttributeError(
            "graph_opt's tf.contrib.{} has no {!r}: {}".format(part, name, _use(name, instead))
        )

    return find


def _use(name: str, instead: Mapping[str, str]) -> str:
    for known, use in instead.items():
        if known == "*":
            return "look in " + use
        if name == known or (known.endswith("*") and name.startswith(known[:-1])):
            return "use " + use
    return "TensorFlow 2.15 has nothing in its place"
