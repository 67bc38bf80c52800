"""Numbers for the requests of steps on servers, which TensorFlow itself repeats now and then."""

from __future__ import annotations

import ctypes
import functools

from graph_opt.ops.library import LIBRARY_PATH, register_ops


@functools.lru_cache(maxsize=None)
def number_requests() -> bool:
    """Has the masters of this process number the requests of all steps without repetition.

    A server refuses a step with the number of one of its last 100,000. TensorFlow's master seeds a
    generator with 32 bits for each step, so that one in some 43,000 is refused with AbortedError
    ("received twice") or waits forever (https://github.com/pytorch/xla/issues/4084): a session
    that also prefetches takes three steps for one, and would meet that three times as often.

    Returns:
      Whether TensorFlow's function was replaced. If it was not, its numbers stay as they are.

    Example:
      >>> number_requests()
      True
    """
    register_ops()
    return bool(ctypes.CDLL(LIBRARY_PATH).graph_opt_number_requests() > 0)
