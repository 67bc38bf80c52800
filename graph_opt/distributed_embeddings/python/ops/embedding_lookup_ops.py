"""distributed-embeddings: `distributed_embeddings.python.ops.embedding_lookup_ops`."""

from __future__ import annotations

from graph_opt.distributed_embeddings.local_lookup import embedding_lookup

__all__ = ["embedding_lookup"]
