"""A process for what TensorFlow does with a file: its C++ ends the process for some bytes.

Its checks of shapes call `abort` for attributes that no graph of TensorFlow has, and a crash must
be an error with an exit code like any other.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from typing import Any, Callable

_OF_CODE = (signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV)
_DIES_WITH_PARENT = 1  # PR_SET_PDEATHSIG


def in_child_process(run: Callable[[], int], crashed: Callable[[str], int]) -> int:
    """Calls a function in a child of this process, which must have no threads yet.

    Args:
      run: Returns an exit code, and raises nothing that it should have handled.
      crashed: Gets the name of the signal by which the child's code has ended it, and returns an
        exit code.

    Returns:
      The exit code. If somebody else has ended the child, this process ends by the same signal.
    """
    _flush()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os._exit(_run(run, parent))
    handler = signal.getsignal(signal.SIGINT)
    if handler != signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda *_: os.kill(child, signal.SIGINT))
    try:
        _, status = os.waitpid(child, 0)
    finally:
        signal.signal(signal.SIGINT, handler)
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status))
        if number in _OF_CODE:
            return crashed(number.name)
        os.kill(os.getpid(), number)
    return os.WEXITSTATUS(status)


def _run(run: Callable[[], int], parent: int) -> int:
    ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return 1  # It has ended before.
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, _interrupt_once)
    try:
        code = run()
        _flush()
    except BaseException:
        traceback.print_exc()
        return 1
    return code


def _interrupt_once(*_: Any) -> None:
    """A terminal interrupts parent and child, and the parent tells the child once more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
