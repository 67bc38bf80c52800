"""Optimizers whose gradients something around them reduces, so that nothing else may."""

from __future__ import annotations

import weakref
from typing import Any, MutableSet

_reduced: MutableSet[Any] = weakref.WeakSet()


def note_reduced(optimizer: Any) -> None:
    """The gradients that an optimizer computes are reduced by what wraps it.

    Example:
      >>> note_reduced(optimizer)
      >>> optimizer = hvd.DistributedOptimizer(optimizer)
    """
    _reduced.add(optimizer)


def is_reduced_elsewhere(optimizer: Any) -> bool:
    """Whether something else reduces the gradients of an optimizer."""
    return optimizer in _reduced
