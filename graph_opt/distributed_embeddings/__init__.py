"""The names of distributed-embeddings, over tables that are sharded across ranks.

Example:
  >>> from graph_opt import distributed_embeddings as de
  >>> layer = de.Embedding(1000, 16, combiner="sum")
  >>> pooled = layer(ids)  # [batch, ids of a bag] -> [batch, 16]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from graph_opt.distributed_embeddings import python
    from graph_opt.distributed_embeddings.broadcasting import (
        BroadcastGlobalVariablesCallback,
        BroadcastGlobalVariablesHook,
    )
    from graph_opt.distributed_embeddings.data_parallel import (
        DistributedGradientTape,
        DistributedOptimizer,
        broadcast_variables,
    )
    from graph_opt.distributed_embeddings.distributed_embedding import DistributedEmbedding
    from graph_opt.distributed_embeddings.embedding import ConcatOneHotEmbedding, Embedding
    from graph_opt.distributed_embeddings.integer_lookup import IntegerLookup
    from graph_opt.distributed_embeddings.local_lookup import embedding_lookup
    from graph_opt.distributed_embeddings.model_parallel_input import dp_to_mp_input
    from graph_opt.distributed_embeddings.python.layers import dist_model_parallel
    from graph_opt.distributed_embeddings.strategy import DistEmbeddingStrategy

__all__ = [
    "BroadcastGlobalVariablesCallback",
    "BroadcastGlobalVariablesHook",
    "ConcatOneHotEmbedding",
    "DistEmbeddingStrategy",
    "DistributedEmbedding",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "Embedding",
    "IntegerLookup",
    "__version__",
    "broadcast_variables",
    "dist_model_parallel",
    "dp_to_mp_input",
    "embedding_lookup",
    "python",
]

__version__ = "1.0.0"  # of distributed-embeddings: the release whose names these are

# Keras takes long to load: names are imported on first use.
_MODULES = {
    "BroadcastGlobalVariablesCallback": "broadcasting",
    "BroadcastGlobalVariablesHook": "broadcasting",
    "ConcatOneHotEmbedding": "embedding",
    "DistEmbeddingStrategy": "strategy",
    "DistributedEmbedding": "distributed_embedding",
    "DistributedGradientTape": "data_parallel",
    "DistributedOptimizer": "data_parallel",
    "Embedding": "embedding",
    "IntegerLookup": "integer_lookup",
    "_dp_to_mp_input": "model_parallel_input",
    "broadcast_variables": "data_parallel",
    "dp_to_mp_input": "model_parallel_input",
    "embedding_lookup": "local_lookup",
}


# Modules that scripts import from here.
_PACKAGES = {"dist_model_parallel": "python.layers.dist_model_parallel", "python": "python"}


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(__name__ + "." + _PACKAGES[name])
    if name not in _MODULES:
        raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
    value = getattr(importlib.import_module(__name__ + "." + _MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
