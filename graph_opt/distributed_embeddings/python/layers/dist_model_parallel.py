"""distributed-embeddings: `distributed_embeddings.python.layers.dist_model_parallel`."""

from __future__ import annotations

from graph_opt.distributed_embeddings.broadcasting import BroadcastGlobalVariablesCallback
from graph_opt.distributed_embeddings.data_parallel import (
    DistributedGradientTape,
    DistributedOptimizer,
    broadcast_variables,
)
from graph_opt.distributed_embeddings.distributed_embedding import DistributedEmbedding
from graph_opt.distributed_embeddings.model_parallel_input import (
    _dp_to_mp_input,
    dp_to_mp_input,
)
from graph_opt.distributed_embeddings.strategy import DistEmbeddingStrategy

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "DistEmbeddingStrategy",
    "DistributedEmbedding",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "_dp_to_mp_input",
    "broadcast_variables",
    "dp_to_mp_input",
]
