"""The ways in which ranks train together, and how their sessions are opened."""

from __future__ import annotations

from typing import Dict

from tools.bench.training import sessions

HOROVOD = "horovod"
HOROVOD_DENSE = "horovod_dense"
SHARDED = "sharded"
FUSED = sessions.FUSED
ASYNC = sessions.ASYNC
BOTH = sessions.BOTH
LOCAL = "local"

DESCRIPTIONS: Dict[str, str] = {
    HOROVOD: "every rank has all tables; Horovod gathers the gradients' rows",
    HOROVOD_DENSE: "the same, but Horovod adds up gradients of whole tables",
    SHARDED: "the tables are divided among the ranks",
    FUSED: "sharded, and their updates are one op",
    ASYNC: "sharded, and lookups run ahead of the step",
    BOTH: "fused, and lookups run ahead of the step",
    LOCAL: "each rank trains on its own, without messages",
}
DEMONSTRATED = (HOROVOD, SHARDED, ASYNC, BOTH)
MODES = (HOROVOD, HOROVOD_DENSE, SHARDED, FUSED, BOTH)
REPLICATED = (HOROVOD, HOROVOD_DENSE, LOCAL)
AHEAD = (ASYNC, BOTH)

# How a session of each mode is opened.
SESSION_MODES: Dict[str, str] = {
    HOROVOD: sessions.STOCK,
    HOROVOD_DENSE: sessions.STOCK,
    SHARDED: sessions.STOCK,
    FUSED: sessions.FUSED,
    ASYNC: sessions.ASYNC,
    BOTH: sessions.BOTH,
    LOCAL: sessions.FUSED,
}
