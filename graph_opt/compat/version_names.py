"""Which of TensorFlow's two APIs has a name, according to the installed release itself."""

from __future__ import annotations

import inspect
import re
from typing import Any, FrozenSet, Iterable, List, Sequence

import tensorflow as stock

from graph_opt.compat import tf

# TensorFlow 1 alone has a `tf.contrib` of its own.
IS_VERSION_1 = hasattr(stock, "contrib")
# Parts of TensorFlow 1 that later releases have in neither API.
_REMOVED = frozenset({"contrib", "examples"})


def release_numbers() -> List[int]:
    """The installed release, such as [2, 15, 1]."""
    return [int(number) for number in re.findall(r"\d+", stock.version.VERSION)[:3]]


def version_with(names: Sequence[str], keywords: Iterable[str] = ()) -> int:
    """The only version of TensorFlow's API that has `tf.names...`, called with these keywords.

    Args:
      names: What follows `tf.`, such as `["nn", "dropout"]`.
      keywords: Names of arguments that a call passes.

    Returns:
      1 or 2; 0 if both versions have it, or neither.

    Example:
      >>> version_with(["placeholder"]), version_with(["random", "set_seed"])
      (1, 2)
      >>> version_with(["nn", "dropout"]), version_with(["nn", "dropout"], ["keep_prob"])
      (0, 1)
    """
    if names and names[0] in _REMOVED:
        return 1
    if IS_VERSION_1:  # Its flags parse the command line when they are asked for a name.
        return 0
    old: Any = tf
    new: Any = stock
    for name in names:
        in_old, in_new = _has(old, name), _has(new, name)
        if not (in_old and in_new):
            return _only(in_old, in_new)
        old, new = getattr(old, name), getattr(new, name)
    return 0 if old is new else _version_with_keywords(old, new, frozenset(keywords))


def _has(owner: Any, name: str) -> bool:
    try:
        return hasattr(owner, name)
    except ImportError:  # A part that is loaded on first use, but cannot be loaded.
        return False


def _version_with_keywords(old: Any, new: Any, keywords: FrozenSet[str]) -> int:
    old_parameters, new_parameters = _parameters(old), _parameters(new)
    only_old = keywords & old_parameters - new_parameters
    only_new = keywords & new_parameters - old_parameters
    return _only(bool(only_old), bool(only_new))


def _parameters(function: Any) -> FrozenSet[str]:
    try:
        return frozenset(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # A module, or a function without a signature.
        return frozenset()


def _only(in_old: bool, in_new: bool) -> int:
    if in_old == in_new:
        return 0
    return 1 if in_old else 2
