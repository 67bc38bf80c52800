"""Processes that start with TensorFlow imported, and without graph_opt.

They are forked from a process that has imported TensorFlow and done nothing else, since that import
takes seconds.
"""

from __future__ import annotations

import gc
import multiprocessing
from typing import Any, Callable

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tensorflow.compat.v1"])


def start_process(target: Callable[..., object], *arguments: Any) -> Any:
    """Calls a function in a process that has imported TensorFlow and done nothing else with it.

    Args:
      target: A function of a module, which is imported there.
      *arguments: Its arguments, which must be picklable.

    Returns:
      The `multiprocessing.Process`, which is killed when this one ends.
    """
    process = _processes.Process(target=_call, args=(target, *arguments), daemon=True)
    process.start()
    return process


def kill(process: Any) -> None:
    """Ends such a process by SIGKILL, and waits for its end.

    Unlike its own `kill`, it sends nothing to a process that has ended by itself: the fork server
    collects those at once, and by now the same number may be that of another process or thread.
    """
    if process.is_alive():
        process.kill()
    process.join()


def _call(target: Callable[..., object], *arguments: Any) -> None:
    gc.freeze()  # A collection would write to, and so copy, all that is shared with the server.
    target(*arguments)


def pipe() -> Any:
    """The two ends of a pipe to such a process."""
    return _processes.Pipe()
