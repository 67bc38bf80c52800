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
SHARD_TABLES = "shard_tables"
OURS_DE = "ours_de"
OURS_DE_FUSED = "ours_de_fused"
THEIR_DE = "distributed_embeddings"
LOCAL = "local"
LOCAL_STOCK = "local_stock"

WHY_NOT_THE_PACKAGE = (
    "distributed-embeddings cannot be installed by pip, and its ops need a GPU: mode {} sends its "
    "messages with Horovod, and looks up with TensorFlow's ops".format(THEIR_DE)
)

DESCRIPTIONS: Dict[str, str] = {
    HOROVOD: "every rank has all tables; Horovod gathers the gradients' rows",
    HOROVOD_DENSE: "the same, but Horovod adds up gradients of whole tables",
    SHARDED: "the tables are sharded across the ranks",
    FUSED: "sharded, and their updates are one op",
    ASYNC: "sharded, and lookups run ahead of the step",
    BOTH: "fused, and lookups run ahead of the step",
    SHARD_TABLES: "the script of mode horovod, whose tables graph_opt divides",
    OURS_DE: "the tables are in graph_opt's DistributedEmbedding",
    OURS_DE_FUSED: "the same, and their updates are one op",
    THEIR_DE: "distributed-embeddings' messages, with TensorFlow's ops",
    LOCAL: "each rank trains on its own, without messages",
    LOCAL_STOCK: "the same, in a stock session",
}
DEMONSTRATED = (HOROVOD, SHARDED, ASYNC, BOTH)
MODES = (
    HOROVOD,
    HOROVOD_DENSE,
    SHARDED,
    FUSED,
    BOTH,
    SHARD_TABLES,
    THEIR_DE,
    OURS_DE,
    OURS_DE_FUSED,
)
# Sharded for a rank that is alone, and what it would do without.
ALONE: Dict[str, str] = {SHARDED: LOCAL_STOCK, FUSED: LOCAL}
# In the graphs of these every rank has all tables.
REPLICATED = (HOROVOD, HOROVOD_DENSE, SHARD_TABLES, LOCAL, LOCAL_STOCK)
AHEAD = (ASYNC, BOTH)

# How a session of each mode is opened.
SESSION_MODES: Dict[str, str] = {
    HOROVOD: sessions.STOCK,
    HOROVOD_DENSE: sessions.STOCK,
    SHARDED: sessions.STOCK,
    FUSED: sessions.FUSED,
    ASYNC: sessions.ASYNC,
    BOTH: sessions.BOTH,
    SHARD_TABLES: sessions.SHARDED,
    OURS_DE: sessions.STOCK,
    OURS_DE_FUSED: sessions.FUSED,
    THEIR_DE: sessions.STOCK,
    LOCAL: sessions.FUSED,
    LOCAL_STOCK: sessions.STOCK,
}
