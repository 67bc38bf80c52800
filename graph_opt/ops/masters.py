"""Corrects what TensorFlow's masters do wrong in sessions on a cluster."""

from __future__ import annotations

import ctypes
import functools

from graph_opt.ops.library import LIBRARY_PATH
from graph_opt.ops.request_numbers import number_requests


@functools.lru_cache(maxsize=None)
def correct_masters() -> None:
    """Has the masters of this process number requests anew, and cancel what they have not sent.

    See `number_requests` and `cancel_unsent_calls`. Calling it again does nothing.

    Example:
      >>> correct_masters()
    """
    if number_requests():
        cancel_unsent_calls()


@functools.lru_cache(maxsize=None)
def cancel_unsent_calls() -> bool:
    """Has the masters of this process cancel the calls of a failed step that they send later.

    A master asks one task after the other to run its part of a step. If one fails meanwhile, the
    master cancels the others, but TensorFlow forgets that for those it has not asked yet. Where
    such a task waits for one that was cancelled in time, the step never ends. It needs requests
    that `number_requests` numbers.

    Returns:
      Whether TensorFlow's functions were replaced. If they were not, such steps never end.

    Example:
      >>> number_requests() and cancel_unsent_calls()
      True
    """
    return bool(ctypes.CDLL(LIBRARY_PATH).graph_opt_cancel_unsent_calls())
