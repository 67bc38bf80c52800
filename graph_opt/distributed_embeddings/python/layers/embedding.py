"""distributed-embeddings: `distributed_embeddings.python.layers.embedding`."""

from __future__ import annotations

from graph_opt.distributed_embeddings.embedding import ConcatOneHotEmbedding, Embedding
from graph_opt.distributed_embeddings.integer_lookup import IntegerLookup

__all__ = ["ConcatOneHotEmbedding", "Embedding", "IntegerLookup"]
