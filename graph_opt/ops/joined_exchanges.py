"""Exchanges of one step that end it together, where ranks agree on an error in place of ids."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Iterator, Sequence

from graph_opt.ops.library import LIBRARY_PATH, load_library


@contextlib.contextmanager
def ending_together(exchanges: Sequence[str]) -> Iterator[None]:
    """In this block, an exchange that fails waits until all of these have received their ids.

    Else the step would end before it has sent the ids of all, and other ranks would wait for them.

    Args:
      exchanges: The keys of those that a step runs and that do not wait for one another.
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
    load_library()
    function = getattr(ctypes.CDLL(LIBRARY_PATH), name)
    function.argtypes = [ctypes.c_char_p]
    function.restype = None
    return function
