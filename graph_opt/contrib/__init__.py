"""The part of `tf.contrib` that recommender scripts use, over TensorFlow 2.15.

`tf.contrib` ended with TensorFlow 1.15. Functions here have its arguments, defaults, names of
variables and numbers. Where something is not here, an error says what is, or what to use instead.
"""

from __future__ import annotations

import importlib
from typing import Any, List

_PARTS = (
    "data",
    "estimator",
    "feature_column",
    "framework",
    "layers",
    "lookup",
    "metrics",
    "opt",
    "rnn",
    "training",
)
_INSTEAD = {
    "distribute": "tf.distribute",
    "keras": "tf.keras",
    "learn": "tf.estimator",
    "losses": "tf.losses",
    "saved_model": "tf.saved_model",
    "seq2seq": "tensorflow_addons.seq2seq",
    "slim": "the package tf_slim",
    "summary": "tf.summary",
}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module("graph_opt.contrib." + name)
    raise AttributeError(
        "graph_opt's tf.contrib has no {!r}: {}".format(
            name,
            "use " + _INSTEAD[name] if name in _INSTEAD else "it has " + ", ".join(_PARTS),
        )
    )


def __dir__() -> List[str]:
    return sorted([*globals(), *_PARTS])
