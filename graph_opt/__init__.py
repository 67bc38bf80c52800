"""graph_opt: fuses the embedding lookups of TF1-style graphs and prefetches them.

Example:
  >>> import graph_opt
  >>> config = graph_opt.ConfigProto()
  >>> optimizer_options = config.graph_options.optimizer_options
  >>> optimizer_options.do_async_embedding = True
  >>> optimizer_options.async_embedding_options.threads_num = 1
  >>> optimizer_options.async_embedding_options.capacity = 2
  >>> optimizer_options.async_embedding_options.infer_io_stage = True
  >>> with graph_opt.train.MonitoredTrainingSession(config=config) as session:
  ...     while not session.should_stop():
  ...         session.run(train_op)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from graph_opt import distributed_embeddings, sok, train
    from graph_opt.checking.check_rewrite import check_rewrite
    from graph_opt.compat.exported_graph import running_graph_def
    from graph_opt.config import ConfigProto, GraphOptions, OptimizerOptions, load_config
    from graph_opt.embedding.column_scope import (
        coalesced_embedding_scope,
        group_embedding_column_scope,
    )
    from graph_opt.embedding.fused_lookup import fused_embedding_lookup_sparse
    from graph_opt.embedding.group_lookup import group_embedding_lookup_sparse
    from graph_opt.embedding.group_rows import group_embedding_lookup
    from graph_opt.embedding_variable.adaptive_columns import (
        categorical_column_with_adaptive_embedding,
        input_layer,
    )
    from graph_opt.embedding_variable.adaptive_lookups import (
        adaptive_embedding_lookup_sparse,
        safe_adaptive_embedding_lookup_sparse,
    )
    from graph_opt.embedding_variable.columns import (
        categorical_column_with_embedding,
        categorical_column_with_multihash,
        embedding_column,
        linear_model,
        sequence_categorical_column_with_embedding,
        shared_embedding_columns,
    )
    from graph_opt.embedding_variable.composite_tables import (
        get_dynamic_dimension_embedding_variable,
        get_multihash_variable,
    )
    from graph_opt.embedding_variable.get_embedding_variable import (
        get_embedding_variable,
    )
    from graph_opt.embedding_variable.lookups import fused_safe_embedding_lookup_sparse
    from graph_opt.embedding_variable.multi_dim_lookups import (
        embedding_lookup_sparse_multi_dim,
        safe_embedding_lookup_multi_dim,
    )
    from graph_opt.embedding_variable.option_classes import (
        CapacityEvict,
        CBFFilter,
        CheckpointOption,
        CounterFilter,
        EmbeddingVariableOption,
        GlobalStepEvict,
        InitializerOption,
        L2WeightEvict,
        StorageOption,
    )
    from graph_opt.embedding_variable.sparse_columns import (
        categorical_column_with_hash,
        cutoff_categorical_column,
        hash_table_column,
        sparse_bucketized_column,
        sparse_numeric_column,
    )
    from graph_opt.input.data_frame import DataFrame
    from graph_opt.input.parquet_dataset import ParquetDataset
    from graph_opt.input.work_queue import WorkQueue
    from graph_opt.ops.instruction_set import instruction_set
    from graph_opt.ops.library import load_library as load_op_library
    from graph_opt.ops.scratch_memory import scratch_memory
    from graph_opt.passes.optimize import OptimizedGraph, optimize_graph_def
    from graph_opt.reporting.report import Report
    from graph_opt.runtime.mark import async_embedding_mark_node
    from graph_opt.runtime.metrics import buffer_metrics as metrics
    from graph_opt.runtime.refresh_metrics import refresh_metrics
    from graph_opt.runtime.staged import prefetch_join, staged
    from graph_opt.runtime.staleness_metrics import staleness_metrics
    from graph_opt.runtime.table_metrics import table_metrics
    from graph_opt.runtime.trace import trace_of as step_trace
    from graph_opt.serving.fused_export import export_fused
    from graph_opt.serving.table_updates import update_served
    from graph_opt.session.graph_page import graph_report
    from graph_opt.session.graph_records import report_of as report
    from graph_opt.session.installation import install, uninstall
    from graph_opt.session.live import optimize_graph
    from graph_opt.session.prefetch_hook import make_prefetch_hook
    from graph_opt.session.session import InteractiveSession, Session
    from graph_opt.session.session_log import session_reports
    from graph_opt.strategy.collective_strategy import CollectiveStrategy
    from graph_opt.strategy.distributed_strategy import enable_distributed_strategy

__all__ = [
    "CBFFilter",
    "CapacityEvict",
    "CheckpointOption",
    "CollectiveStrategy",
    "ConfigProto",
    "CounterFilter",
    "DataFrame",
    "EmbeddingVariableOption",
    "GlobalStepEvict",
    "GraphOptions",
    "InitializerOption",
    "InteractiveSession",
    "L2WeightEvict",
    "OptimizedGraph",
    "OptimizerOptions",
    "ParquetDataset",
    "Report",
    "Session",
    "StorageOption",
    "WorkQueue",
    "adaptive_embedding_lookup_sparse",
    "async_embedding_mark_node",
    "categorical_column_with_adaptive_embedding",
    "categorical_column_with_embedding",
    "categorical_column_with_hash",
    "categorical_column_with_multihash",
    "check_rewrite",
    "coalesced_embedding_scope",
    "cutoff_categorical_column",
    "distributed_embeddings",
    "embedding_column",
    "embedding_lookup_sparse_multi_dim",
    "enable_distributed_strategy",
    "export_fused",
    "fused_embedding_lookup_sparse",
    "fused_safe_embedding_lookup_sparse",
    "get_dynamic_dimension_embedding_variable",
    "get_embedding_variable",
    "get_multihash_variable",
    "graph_report",
    "group_embedding_column_scope",
    "group_embedding_lookup",
    "group_embedding_lookup_sparse",
    "hash_table_column",
    "input_layer",
    "install",
    "instruction_set",
    "linear_model",
    "load_config",
    "load_op_library",
    "make_prefetch_hook",
    "metrics",
    "optimize_graph",
    "optimize_graph_def",
    "prefetch_join",
    "refresh_metrics",
    "report",
    "running_graph_def",
    "safe_adaptive_embedding_lookup_sparse",
    "safe_embedding_lookup_multi_dim",
    "scratch_memory",
    "sequence_categorical_column_with_embedding",
    "session_reports",
    "shared_embedding_columns",
    "sok",
    "sparse_bucketized_column",
    "sparse_numeric_column",
    "staged",
    "staleness_metrics",
    "step_trace",
    "table_metrics",
    "train",
    "uninstall",
    "update_served",
]

# Importing TensorFlow takes seconds. Names are loaded on first use, so that the command line can
# print its help at once.
_MODULES = {
    "__version__": "graph_opt.cli.release:RELEASE",
    "CBFFilter": "graph_opt.embedding_variable.option_classes",
    "CapacityEvict": "graph_opt.embedding_variable.option_classes",
    "CheckpointOption": "graph_opt.embedding_variable.option_classes",
    "CollectiveStrategy": "graph_opt.strategy.collective_strategy",
    "ConfigProto": "graph_opt.config",
    "CounterFilter": "graph_opt.embedding_variable.option_classes",
    "DataFrame": "graph_opt.input.data_frame",
    "EmbeddingVariableOption": "graph_opt.embedding_variable.option_classes",
    "GlobalStepEvict": "graph_opt.embedding_variable.option_classes",
    "GraphOptions": "graph_opt.config",
    "InitializerOption": "graph_opt.embedding_variable.option_classes",
    "InteractiveSession": "graph_opt.session.session",
    "L2WeightEvict": "graph_opt.embedding_variable.option_classes",
    "OptimizedGraph": "graph_opt.passes.optimize",
    "OptimizerOptions": "graph_opt.config",
    "ParquetDataset": "graph_opt.input.parquet_dataset",
    "Report": "graph_opt.reporting.report",
    "Session": "graph_opt.session.session",
    "StorageOption": "graph_opt.embedding_variable.option_classes",
    "WorkQueue": "graph_opt.input.work_queue",
    "adaptive_embedding_lookup_sparse": "graph_opt.embedding_variable.adaptive_lookups",
    "async_embedding_mark_node": "graph_opt.runtime.mark",
    "categorical_column_with_adaptive_embedding": "graph_opt.embedding_variable.adaptive_columns",
    "categorical_column_with_embedding": "graph_opt.embedding_variable.columns",
    "categorical_column_with_hash": "graph_opt.embedding_variable.sparse_columns",
    "categorical_column_with_multihash": "graph_opt.embedding_variable.columns",
    "check_rewrite": "graph_opt.checking.check_rewrite",
    "coalesced_embedding_scope": "graph_opt.embedding.column_scope",
    "cutoff_categorical_column": "graph_opt.embedding_variable.sparse_columns",
    "distributed_embeddings": "graph_opt.distributed_embeddings:",
    "embedding_column": "graph_opt.embedding_variable.columns",
    "embedding_lookup_sparse_multi_dim": "graph_opt.embedding_variable.multi_dim_lookups",
    "enable_distributed_strategy": "graph_opt.strategy.distributed_strategy",
    "export_fused": "graph_opt.serving.fused_export",
    "fused_embedding_lookup_sparse": "graph_opt.embedding.fused_lookup",
    "fused_safe_embedding_lookup_sparse": "graph_opt.embedding_variable.lookups",
    "get_dynamic_dimension_embedding_variable": "graph_opt.embedding_variable.composite_tables",
    "get_embedding_variable": "graph_opt.embedding_variable.get_embedding_variable",
    "get_multihash_variable": "graph_opt.embedding_variable.composite_tables",
    "graph_report": "graph_opt.session.graph_page",
    "group_embedding_column_scope": "graph_opt.embedding.column_scope",
    "group_embedding_lookup": "graph_opt.embedding.group_rows",
    "group_embedding_lookup_sparse": "graph_opt.embedding.group_lookup",
    "hash_table_column": "graph_opt.embedding_variable.sparse_columns",
    "input_layer": "graph_opt.embedding_variable.adaptive_columns",
    "install": "graph_opt.session.installation",
    "instruction_set": "graph_opt.ops.instruction_set",
    "linear_model": "graph_opt.embedding_variable.columns",
    "load_config": "graph_opt.config",
    "load_op_library": "graph_opt.ops.library:load_library",
    "make_prefetch_hook": "graph_opt.session.prefetch_hook",
    "metrics": "graph_opt.runtime.metrics:buffer_metrics",
    "optimize_graph": "graph_opt.session.live",
    "optimize_graph_def": "graph_opt.passes.optimize",
    "prefetch_join": "graph_opt.runtime.staged",
    "refresh_metrics": "graph_opt.runtime.refresh_metrics",
    "report": "graph_opt.session.graph_records:report_of",
    "running_graph_def": "graph_opt.compat.exported_graph",
    "safe_adaptive_embedding_lookup_sparse": "graph_opt.embedding_variable.adaptive_lookups",
    "safe_embedding_lookup_multi_dim": "graph_opt.embedding_variable.multi_dim_lookups",
    "scratch_memory": "graph_opt.ops.scratch_memory",
    "sequence_categorical_column_with_embedding": "graph_opt.embedding_variable.columns",
    "session_reports": "graph_opt.session.session_log",
    "shared_embedding_columns": "graph_opt.embedding_variable.columns",
    "sok": "graph_opt.sok:",
    "sparse_bucketized_column": "graph_opt.embedding_variable.sparse_columns",
    "sparse_numeric_column": "graph_opt.embedding_variable.sparse_columns",
    "staged": "graph_opt.runtime.staged",
    "staleness_metrics": "graph_opt.runtime.staleness_metrics",
    "step_trace": "graph_opt.runtime.trace:trace_of",
    "table_metrics": "graph_opt.runtime.table_metrics",
    "train": "graph_opt.train:",
    "uninstall": "graph_opt.session.installation",
    "update_served": "graph_opt.serving.table_updates",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError("module 'graph_opt' has no attribute '{}'".format(name))
    module_name, colon, inner = _MODULES[name].partition(":")
    module = importlib.import_module(module_name)
    value = module if colon and not inner else getattr(module, inner or name)
    globals()[name] = value
    return value


def __dir__() -> List[str]:
    return sorted(set(globals()) | set(__all__))
