"""`tensorflow` as TensorFlow 1 code expects it."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any, Dict

import tensorflow as stock

from graph_opt.compat import tf
from graph_opt.compat.deprecation_advice import silence_deprecation
from graph_opt.compat.moved_names import parts_of_version_1

_NAME = "tensorflow"
# How Keras begins what it says of each of TensorFlow 1's layers and cells.
_OF_LAYERS = r"`(tf\.(layers|nn)|layer)\."


def modules_of_version_1() -> Dict[str, ModuleType]:
    """`tensorflow.compat.v1` with everything that `tensorflow` has, and with TF2 behaviour off.

    As `sys.modules["tensorflow"]` it makes `import tensorflow` give version 1, while
    `from tensorflow.python...`, `tensorflow.core...` and `tensorflow.compat.v1` keep working and
    lead to the same objects. TF2 behaviour is switched off for the rest of the process, and so is
    the advice to leave TensorFlow 1, a hundred lines in which others would be lost.

    Returns:
      The module and its parts (`tensorflow.nn`), by the names to import them by.

    Example:
      >>> modules_of_version_1()["tensorflow"].Session
      <class 'tensorflow.python.client.session.Session'>
    """
    _disable_version_2()
    silence_deprecation()
    warnings.filterwarnings("ignore", _OF_LAYERS, UserWarning)
    _complete(tf)
    return {_NAME: tf, **parts_of_version_1()}


def _disable_version_2() -> None:
    verbosity = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.ERROR)  # It warns about what the script expects.
    try:
        tf.disable_v2_behavior()
    finally:
        tf.logging.set_verbosity(verbosity)


def _complete(module: Any) -> None:
    """Adds to the version 1 module what only TensorFlow's top module has."""
    module.compat = stock.compat  # The `compat` inside tf.compat.v1 is another module.
    for path in stock.__path__:
        if path not in module.__path__:
            module.__path__.append(path)
    prefix = _NAME + "."
    for name, child in list(sys.modules.items()):
        short = name[len(prefix) :]
        if name.startswith(prefix) and "." not in short and not hasattr(module, short):
            setattr(module, short, child)  # `import tensorflow.python.x as y` looks here.
