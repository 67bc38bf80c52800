"""Threads that may still be in a call of TensorFlow's when the interpreter ends."""

from __future__ import annotations

import atexit
import ctypes
import functools
import threading
from typing import Any, Callable, Tuple

from graph_opt.ops.library import LIBRARY_PATH, register_ops


def start_thread(
    target: Callable[..., Any], arguments: Tuple[Any, ...] = (), name: str = "graph_opt/calls"
) -> threading.Thread:
    """Starts a thread that the end of the process does not wait for.

    Its call of TensorFlow may return while the interpreter ends: without this, the process would be
    aborted then (https://github.com/python/cpython/issues/87135).

    Args:
      target: What it runs.
      arguments: Of that.
      name: Of the thread.
    """
    _prepare_end()
    thread = threading.Thread(target=target, args=arguments, name=name, daemon=True)
    thread.start()
    return thread


@functools.lru_cache(maxsize=None)
def _prepare_end() -> None:
    register_ops()
    atexit.register(ctypes.CDLL(LIBRARY_PATH).graph_opt_hang_late_threads)
