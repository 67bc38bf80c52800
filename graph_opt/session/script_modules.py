"""Modules that scripts import from below TensorFlow, and TensorFlow 2.15 does not have there."""

from __future__ import annotations

from graph_opt.compat.legacy_names import (
    DATAFRAME_MODULE,
    EMBEDDING_MODULE,
    INCREMENTAL_MODULE,
    KAFKA_MODULE,
    PARQUET_MODULE,
    STRATEGY_MODULE,
    WORK_QUEUE_MODULE,
)
from graph_opt.compat.moved_names import MOVED_MODULES, api_modules
from graph_opt.contrib.files import module_names
from graph_opt.session.module_aliases import ModuleAliases

modules_of_the_api = ModuleAliases(api_modules())
deeprec_modules = ModuleAliases(
    {
        **MOVED_MODULES,
        DATAFRAME_MODULE: "graph_opt.input.data_frame",
        EMBEDDING_MODULE: "graph_opt.embedding_variable.embedding",
        KAFKA_MODULE: "graph_opt.contrib.kafka",
        INCREMENTAL_MODULE: "graph_opt.embedding_variable.incremental_saver",
        PARQUET_MODULE: "graph_opt.input.parquet_dataset",
        STRATEGY_MODULE: "graph_opt.strategy.collective_strategy",
        WORK_QUEUE_MODULE: "graph_opt.input.work_queue",
    }
)
contrib_modules = ModuleAliases(module_names())
