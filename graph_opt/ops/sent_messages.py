"""How many messages this process has sent to other ranks."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from graph_opt.ops.library import LIBRARY_PATH, register_ops

PREPARE = "GroupEmbeddingPrepare"
REQUESTS = "ExchangeRequests"


def times_sent(key: str) -> int:
    """How often the messages of a key were sent, or were about to be.

    Args:
      key: "group/rank/message", as the attributes of the node that sends them say.
    """
    return int(_function()(key.encode("utf-8")))


@functools.lru_cache(maxsize=None)
def _function() -> Any:
    register_ops()
    function = ctypes.CDLL(LIBRARY_PATH).graph_opt_sent_messages
    function.argtypes = [ctypes.c_char_p]
    function.restype = ctypes.c_int64
    return function
