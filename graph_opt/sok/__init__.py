"""The names of SparseOperationKit (SOK), over tables that are sharded across ranks.

Example:
  >>> from graph_opt import sok
  >>> hvd.init()
  >>> sok.init()
  >>> table = sok.Variable(shape=[1000000, 16], initializer=tf.random_uniform_initializer())
  >>> pooled = sok.lookup_sparse(table, ids, combiners="sum")
"""

from __future__ import annotations

import importlib
from typing import Any, List

from graph_opt.compat.version_names import release_numbers
from graph_opt.sok import communication
from graph_opt.sok.checkpoint_saver import CheckpointSaver
from graph_opt.sok.communication import (
    global_gpu_id,
    id_in_rank,
    init,
    local_rank,
    num_gpu_per_rank,
    num_gpus,
    num_ranks,
    rank,
    set_comm_tool,
)
from graph_opt.sok.distributed_variable import (
    DistributedVariable,
    LocalizedVariable,
    Variable,
    filter_variables,
)
from graph_opt.sok.dump_load import DumpHook, dump, load
from graph_opt.sok.dynamic_variable import DynamicVariable
from graph_opt.sok.incremental_dump import end_epoch, incremental_model_dump
from graph_opt.sok.input_end import end_together
from graph_opt.sok.lookup import all2all_dense_embedding, lookup_sparse, sparse_read_and_evict
from graph_opt.sok.optimizer import SGD, OptimizerWrapper
from graph_opt.sok.rows import assign, export
from graph_opt.sok.saved_model import export_saved_model

__all__ = [
    "SGD",
    "All2AllDenseEmbedding",
    "CheckpointSaver",
    "DistributedEmbedding",
    "DistributedVariable",
    "DumpHook",
    "DynamicVariable",
    "GraphKeys",
    "Init",
    "LocalizedVariable",
    "OptimizerScope",
    "OptimizerWrapper",
    "Saver",
    "Variable",
    "__version__",
    "all2all_dense_embedding",
    "assign",
    "communication",
    "dump",
    "end_epoch",
    "end_together",
    "export",
    "export_saved_model",
    "filter_variables",
    "get_embedding",
    "global_gpu_id",
    "id_in_rank",
    "incremental_model_dump",
    "init",
    "load",
    "local_rank",
    "lookup_sparse",
    "num_gpu_per_rank",
    "num_gpus",
    "num_ranks",
    "optimizers",
    "rank",
    "set_comm_tool",
    "sparse_read_and_evict",
    "split_embedding_variable_from_others",
    "tf",
    "tf_version",
]

tf_version = release_numbers()

__version__ = "2.1.0"  # of SparseOperationKit: the release whose names these are

# What release 1 had. Its layers load Keras, so they are imported on first use.
_MODULES = {
    "All2AllDenseEmbedding": "embeddings.all2all_dense_embedding",
    "DistributedEmbedding": "embeddings.distributed_embedding",
    "GraphKeys": "graph_keys",
    "Init": "core.initialize",
    "OptimizerScope": "optimizers.scope",
    "Saver": "saver",
    "get_embedding": "embeddings.get_embedding",
    "split_embedding_variable_from_others": "embeddings.embedding_variable",
}
_PACKAGES = ("core", "embeddings", "optimizers", "saver", "tf")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(__name__ + "." + name)
    if name not in _MODULES:
        raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
    value = getattr(importlib.import_module(__name__ + "." + _MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
