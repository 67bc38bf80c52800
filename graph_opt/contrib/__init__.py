"""The part of `tf.contrib` that recommender scripts use, over TensorFlow 2.15.

`tf.contrib` ended with TensorFlow 1.15. Functions here have its arguments, defaults, names of
variables and numbers. Where something is not here, an error says what is, or what to use instead.
"""

from __future__ import annotations

import importlib
from typing import Any, List

from graph_opt.contrib.files import MODULES

_PARTS = (
    "data",
    "estimator",
    "feature_column",
    "framework",
    "kafka",
    "layers",
    "lookup",
    "metrics",
    "opt",
    "predictor",
    "rnn",
    "slim",
    "training",
    "util",
)
_INSTEAD = {
    "checkpoint": "tf.train.Checkpoint",
    "crf": "tensorflow_addons.text.crf",
    "cudnn_rnn": "tf.nn.rnn_cell, or tf.keras.layers.GRU and LSTM",
    "distribute": "tf.distribute",
    "eager": "tf.compat.v2",
    "keras": "tf.keras",
    "learn": "tf.estimator",
    "lite": "tf.lite",
    "losses": "tf.losses",
    "saved_model": "tf.saved_model",
    "seq2seq": "tensorflow_addons.seq2seq",
    "staging": "tf.staged",
    "stateless": "tf.random.stateless_*",
    "summary": "tf.summary",
    "tensorboard": "tensorboard.plugins.projector",
    "tensorrt": "tf.experimental.tensorrt",
    "tpu": "tf.tpu",
}


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return importlib.import_module(MODULES.get(name, "graph_opt.contrib." + name))
    raise AttributeError(
        "graph_opt's tf.contrib has no {!r}: {}".format(
            name,
            "use " + _INSTEAD[name] if name in _INSTEAD else "it has " + ", ".join(_PARTS),
        )
    )


def __dir__() -> List[str]:
    return sorted([*globals(), *_PARTS])
