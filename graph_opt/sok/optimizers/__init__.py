"""SparseOperationKit 1: `sparse_operation_kit.optimizers`."""

from __future__ import annotations

import sys

from graph_opt.sok.embeddings import embedding_variable as utils
from graph_opt.sok.embeddings.embedding_variable import split_embedding_variable_from_others
from graph_opt.sok.optimizers.row_adam import Adam
from graph_opt.sok.optimizers.scope import OptimizerScope

__all__ = ["Adam", "OptimizerScope", "split_embedding_variable_from_others", "utils"]

# Scripts import `optimizers.utils`, which is no name for a file.
sys.modules[__name__ + ".utils"] = utils
