"""Modules that scripts import from below TensorFlow, and TensorFlow 2.15 does not have there."""

from __future__ import annotations

from graph_opt.compat.legacy_names import (
    DATAFRAME_MODULE,
    EMBEDDING_MODULE,
    INCREMENTAL_MODULE,
    PARQUET_MODULE,
    STRATEGY_MODULE,
    WORK_QUEUE_MODULE,
)
from graph_opt.compat.moved_names import MOVED_MODULES, api_modules
from graph_opt.session.module_aliases import ModuleAliases

# Public names, and the files that scripts import some of them from.
_CONTRIB = {
    "tensorflow.contrib": "graph_opt.contrib",
    "tensorflow.contrib.framework.python": "graph_opt.contrib.framework",
    "tensorflow.contrib.framework.python.ops": "graph_opt.contrib.framework",
    "tensorflow.contrib.layers.python": "graph_opt.contrib.layers",
    "tensorflow.contrib.layers.python.layers": "graph_opt.contrib.layers",
    "tensorflow.contrib.layers.python.layers.layers": "graph_opt.contrib.layers",
    "tensorflow.contrib.rnn.python": "graph_opt.contrib.rnn",
    "tensorflow.contrib.rnn.python.ops": "graph_opt.contrib.rnn",
    "tensorflow.contrib.rnn.python.ops.core_rnn_cell": "graph_opt.contrib.rnn",
    "tensorflow.contrib.rnn.python.ops.rnn_cell": "graph_opt.contrib.rnn",
    "tensorflow.contrib.training.python": "graph_opt.contrib.training",
    "tensorflow.contrib.training.python.training": "graph_opt.contrib.training",
    "tensorflow.contrib.training.python.training.hparam": "graph_opt.contrib.training",
}

modules_of_the_api = ModuleAliases(api_modules())
deeprec_modules = ModuleAliases(
    {
        **MOVED_MODULES,
        DATAFRAME_MODULE: "graph_opt.input.data_frame",
        EMBEDDING_MODULE: "graph_opt.embedding_variable.embedding",
        INCREMENTAL_MODULE: "graph_opt.embedding_variable.incremental_saver",
        PARQUET_MODULE: "graph_opt.input.parquet_dataset",
        STRATEGY_MODULE: "graph_opt.strategy.collective_strategy",
        WORK_QUEUE_MODULE: "graph_opt.input.work_queue",
    }
)
contrib_modules = ModuleAliases(_CONTRIB)
