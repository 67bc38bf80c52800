"""The API reference: its pages, each with the public names for one use.

`docs/reference.md` lists the names of each page. The pages themselves are made for the site alone,
by Sphinx from docstrings.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence


class Group(NamedTuple):
    """The public names for one use.

    Attributes:
      page: Name of its page.
      title: Title of its page.
      question: What it answers.
      guide: Name of the page that explains their use.
      names: Dotted names without `graph_opt.`, in the order in which they are shown.
    """

    page: str
    title: str
    question: str
    guide: str
    names: Sequence[str]


GROUPS = (
    Group(
        "api-sessions",
        "Sessions and hooks",
        "How do I open a session that optimizes its graph?",
        "get-started",
        (
            "Session",
            "InteractiveSession",
            "train.MonitoredTrainingSession",
            "train.MonitoredSession",
            "train.SingularMonitoredSession",
            "train.ChiefSessionCreator",
            "train.WorkerSessionCreator",
            "train.AsyncEmbeddingHook",
            "make_prefetch_hook",
            "install",
            "uninstall",
        ),
    ),
    Group(
        "api-config",
        "Configs",
        "How do I make or read a config?",
        "options",
        ("ConfigProto", "GraphOptions", "OptimizerOptions", "load_config"),
    ),
    Group(
        "api-graphs",
        "Graphs",
        "How do I rewrite a graph without a session, or compare both?",
        "passes",
        (
            "optimize_graph",
            "optimize_graph_def",
            "OptimizedGraph",
            "running_graph_def",
            "check_rewrite",
        ),
    ),
    Group(
        "api-reports",
        "Reports and metrics",
        "What was done, who waits for whom, how old are rows?",
        "graph-page",
        (
            "report",
            "Report",
            "session_reports",
            "graph_report",
            "metrics",
            "staleness_metrics",
            "refresh_metrics",
            "table_metrics",
            "step_trace",
            "train.StepTraceHook",
            "train.PrefetchSummaryHook",
            "instruction_set",
            "scratch_memory",
        ),
    ),
    Group(
        "api-input",
        "Input",
        "How do batches reach the graph ahead of the step?",
        "deeprec-names",
        (
            "staged",
            "prefetch_join",
            "async_embedding_mark_node",
            "ParquetDataset",
            "DataFrame",
            "WorkQueue",
        ),
    ),
    Group(
        "api-lookups",
        "Group lookups",
        "How does a model look up many tables in one op?",
        "group-lookups",
        (
            "group_embedding_lookup",
            "group_embedding_lookup_sparse",
            "fused_embedding_lookup_sparse",
            "group_embedding_column_scope",
            "coalesced_embedding_scope",
            "load_op_library",
        ),
    ),
    Group(
        "api-dynamic-tables",
        "Dynamic tables",
        "How do rows come and go with their ids?",
        "dynamic-tables",
        (
            "get_embedding_variable",
            "EmbeddingVariableOption",
            "InitializerOption",
            "CounterFilter",
            "CBFFilter",
            "GlobalStepEvict",
            "L2WeightEvict",
            "CapacityEvict",
            "StorageOption",
            "CheckpointOption",
            "get_multihash_variable",
            "get_dynamic_dimension_embedding_variable",
            "fused_safe_embedding_lookup_sparse",
            "adaptive_embedding_lookup_sparse",
            "safe_adaptive_embedding_lookup_sparse",
            "embedding_lookup_sparse_multi_dim",
            "safe_embedding_lookup_multi_dim",
        ),
    ),
    Group(
        "api-columns",
        "Feature columns",
        "Which of DeepRec's and HybridBackend's feature columns are there?",
        "deeprec-names",
        (
            "categorical_column_with_embedding",
            "sequence_categorical_column_with_embedding",
            "categorical_column_with_adaptive_embedding",
            "categorical_column_with_multihash",
            "categorical_column_with_hash",
            "cutoff_categorical_column",
            "hash_table_column",
            "sparse_bucketized_column",
            "sparse_numeric_column",
            "embedding_column",
            "shared_embedding_columns",
            "input_layer",
            "linear_model",
        ),
    ),
    Group(
        "api-training",
        "Optimizers and checkpoints",
        "Which of DeepRec's optimizers and savers are there?",
        "optimizers",
        (
            "train.AdagradDecayOptimizer",
            "train.AdagradDecayOptimizerV2",
            "train.AdamAsyncOptimizer",
            "train.AdamWOptimizer",
            "train.IncrementalSaver",
            "train.IncrementalCheckpointHook",
            "train.import_meta_graph",
        ),
    ),
    Group(
        "api-serving",
        "Serving",
        "How does a program export a model for servers?",
        "serving",
        ("export_fused", "update_served"),
    ),
    Group(
        "api-strategies",
        "Strategies",
        "How does a script of DeepRec or HybridBackend train on several ranks?",
        "strategies",
        ("CollectiveStrategy", "enable_distributed_strategy"),
    ),
    Group(
        "api-sok",
        "SparseOperationKit's names",
        "Which names of SparseOperationKit are there?",
        "sharding",
        (
            "sok.init",
            "sok.Variable",
            "sok.DistributedVariable",
            "sok.LocalizedVariable",
            "sok.DynamicVariable",
            "sok.filter_variables",
            "sok.lookup_sparse",
            "sok.all2all_dense_embedding",
            "sok.sparse_read_and_evict",
            "sok.OptimizerWrapper",
            "sok.SGD",
            "sok.assign",
            "sok.export",
            "sok.dump",
            "sok.load",
            "sok.DumpHook",
            "sok.CheckpointSaver",
            "sok.incremental_model_dump",
            "sok.end_epoch",
            "sok.end_together",
            "sok.export_saved_model",
            "sok.set_comm_tool",
            "sok.rank",
            "sok.num_ranks",
            "sok.local_rank",
            "sok.global_gpu_id",
            "sok.id_in_rank",
            "sok.num_gpu_per_rank",
            "sok.num_gpus",
            "sok.All2AllDenseEmbedding",
            "sok.DistributedEmbedding",
            "sok.GraphKeys",
            "sok.Init",
            "sok.OptimizerScope",
            "sok.Saver",
            "sok.get_embedding",
            "sok.split_embedding_variable_from_others",
        ),
    ),
    Group(
        "api-distributed-embeddings",
        "distributed-embeddings' names",
        "Which names of distributed-embeddings are there?",
        "distributed-embeddings",
        (
            "distributed_embeddings.Embedding",
            "distributed_embeddings.ConcatOneHotEmbedding",
            "distributed_embeddings.DistributedEmbedding",
            "distributed_embeddings.DistEmbeddingStrategy",
            "distributed_embeddings.IntegerLookup",
            "distributed_embeddings.embedding_lookup",
            "distributed_embeddings.dp_to_mp_input",
            "distributed_embeddings.DistributedGradientTape",
            "distributed_embeddings.DistributedOptimizer",
            "distributed_embeddings.broadcast_variables",
            "distributed_embeddings.BroadcastGlobalVariablesHook",
            "distributed_embeddings.BroadcastGlobalVariablesCallback",
        ),
    ),
)
