"""Updates of sharded tables that sessions have one op do, in place of an op for each table.

`ops_src/kernels/exchange/merge_updates_pass.cc` looks at what a session is about to run. The graph
of the script keeps its nodes.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, NamedTuple

from graph_opt.ops.library import LIBRARY_PATH, register_ops

KEPT_APART = "_graph_opt_updates_kept_apart"
"""On what sums the gradients that ranks send: the updates that take the sums stay as they are."""


class NotedUpdates(NamedTuple):
    """What became of the updates of an exchange's tables.

    Attributes:
      tables: How many tables were met that TensorFlow's op updates from the sums alone.
      refusal: Why no op does all of that; "" if one does.
    """

    tables: int
    refusal: str


def merge_updates(stock_op: str, allowed: bool) -> None:
    """Says whether updates by an op of TensorFlow's may be merged: whether ours has the same bits.

    Nothing is merged of which this was not said.

    Args:
      stock_op: Its type, without "Resource".
      allowed: Whether they may.

    Example:
      >>> merge_updates("SparseApplyAdagrad", allowed=True)
    """
    _functions().graph_opt_merge_updates(stock_op.encode("utf-8"), int(allowed))


def noted_updates(sums: str) -> NotedUpdates:
    """What became of the updates that take the sums of a node, where a session last ran them.

    Args:
      sums: What sums the gradients that ranks send: its `name_in_process`.
    """
    refusal = ctypes.c_char_p()
    tables = _functions().graph_opt_noted_updates(sums.encode("utf-8"), ctypes.byref(refusal))
    return NotedUpdates(int(tables), (refusal.value or b"").decode("utf-8"))


@functools.lru_cache(maxsize=None)
def _functions() -> Any:
    register_ops()
    functions = ctypes.CDLL(LIBRARY_PATH)
    functions.graph_opt_merge_updates.argtypes = [ctypes.c_char_p, ctypes.c_int32]
    functions.graph_opt_merge_updates.restype = None
    functions.graph_opt_noted_updates.argtypes = [
        *(ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p))
    ]
    functions.graph_opt_noted_updates.restype = ctypes.c_int32
    return functions
