"""The names of SparseOperationKit (SOK), over tables that are divided among ranks.

Example:
  >>> from graph_opt import sok
  >>> hvd.init()
  >>> sok.init()
  >>> table = sok.Variable(shape=[1000000, 16], initializer=tf.random_uniform_initializer())
  >>> pooled = sok.lookup_sparse(table, ids, combiners="sum")
"""

from __future__ import annotations

from graph_opt.sok import communication
from graph_opt.sok.communication import (
    global_gpu_id,
    id_in_rank,
    init,
    num_gpu_per_rank,
    num_gpus,
    num_ranks,
    rank,
)
from graph_opt.sok.lookup import all2all_dense_embedding, lookup_sparse
from graph_opt.sok.optimizers_of_tables import SGD, OptimizerWrapper
from graph_opt.sok.rows import assign, export
from graph_opt.sok.variable import Variable, filter_variables

__all__ = [
    "SGD",
    "OptimizerWrapper",
    "Variable",
    "all2all_dense_embedding",
    "assign",
    "communication",
    "export",
    "filter_variables",
    "global_gpu_id",
    "id_in_rank",
    "init",
    "lookup_sparse",
    "num_gpu_per_rank",
    "num_gpus",
    "num_ranks",
    "rank",
]
