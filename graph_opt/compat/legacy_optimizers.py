"""Keras' legacy optimizers where scripts look for its optimizers, and back."""

from __future__ import annotations

import sys
import types
from typing import Any, List, Tuple

import tensorflow as stock

_before: List[Tuple[Any, Any]] = []


class _LegacyFirst(types.ModuleType):
    """The names of the legacy module, and those of the other that it lacks, such as schedules."""

    def __init__(self, optimizers: Any) -> None:
        super().__init__(optimizers.__name__, optimizers.__doc__)
        self._optimizers = optimizers

    def __getattr__(self, name: str) -> Any:
        if hasattr(self._optimizers.legacy, name):
            return getattr(self._optimizers.legacy, name)
        return getattr(self._optimizers, name)

    def __dir__(self) -> List[str]:
        return sorted(set(dir(self._optimizers)) | set(dir(self._optimizers.legacy)))


def use_legacy_optimizers() -> None:
    """From now on `tf.keras.optimizers` and `tf.optimizers` have the legacy classes.

    Names that were imported before stay what they are. Where these are the legacy classes anyway,
    nothing changes.
    """
    optimizers = stock.keras.optimizers
    if _before or not hasattr(optimizers, "legacy"):
        return
    module = sys.modules[optimizers.__name__.rsplit(".", 1)[0]]  # behind a lazy one
    for owner in (stock.keras, module, stock):
        _before.append((owner, owner.optimizers))
    for owner, _ in _before:
        owner.optimizers = _LegacyFirst(optimizers)


def restore_optimizers() -> None:
    """Undoes `use_legacy_optimizers`."""
    while _before:
        owner, optimizers = _before.pop()
        owner.optimizers = optimizers
