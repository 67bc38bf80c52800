"""Exchanges of one step: they send their ids together, and end together where ranks agree to."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Iterator, Sequence

from graph_opt.ops.library import LIBRARY_PATH, register_ops


@contextlib.contextmanager
def joined(exchanges: Sequence[str]) -> Iterator[None]:
    """In this block, these send their ids only when all of them can.

    So a step that fails before, since one of its inputs has ended, has sent nothing, and may send
    the error in place of all ids. An exchange that gets an error in place of ids waits until all
    have received theirs: else the step might end before all are sent, and other ranks would wait.

    Args:
      exchanges: The keys of those that a step runs, whatever happens, and that do not wait for one
        another.
    """
    if len(exchanges) < 2:
        yield
        return
    names = "\n".join(exchanges).encode("utf-8")
    _function("graph_opt_expect_exchanges")(names)
    try:
        yield
    finally:
        _function("graph_opt_forget_exchanges")(names)


@functools.lru_cache(maxsize=None)
def _function(name: str) -> Any:
    register_ops()
    function = getattr(ctypes.CDLL(LIBRARY_PATH), name)
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    return function
