"""Every field that graph_opt adds to TensorFlow's ConfigProto and RunOptions.

Numbers below 1000 are DeepRec's, so that its serialized configs can be read; those from 1000 on are
graph_opt's own. DeepRec's wire format has `do_op_fusion` as 7, a number that TensorFlow 2 gave to
`cpu_global_jit`: here the option is 1007, and 7 means what TensorFlow says. DeepRec's numbers of
`smart_stage_options` and `stage_subgraph_on_cpu` are not known, nor is what its
`cuda_graph_mode_options` has.
"""

from __future__ import annotations

from typing import NamedTuple, Tuple


class NewField(NamedTuple):
    """One field that graph_opt adds.

    Attributes:
      message: Name of the message that gets it, which is created if TensorFlow has none.
      name: Name of the field.
      number: Its number on the wire.
      kind: "bool", "int32", "int64", "string", or the name of one of graph_opt's own messages.
      repeated: Whether it is a list.
      unset: What it is unless it is set, where that is not the zero of its kind.
    """

    message: str
    name: str
    number: int
    kind: str
    repeated: bool = False
    unset: str = ""

    @property
    def default(self) -> str:
        """What it is unless it is set; "" of messages, and of lists that are empty."""
        return self.unset or ("" if self.repeated else _ZEROS.get(self.kind, ""))

    @property
    def is_scalar(self) -> bool:
        """Whether it is not a message, nor a list of messages."""
        return self.kind in _ZEROS


_ZEROS = {"bool": "false", "int32": "0", "int64": "0", "string": '""'}
FIELDS: Tuple[NewField, ...] = (
    NewField("AsyncEmbeddingOptions", "threads_num", 1, "int32", unset="must be set"),
    NewField("AsyncEmbeddingOptions", "capacity", 2, "int32", unset="must be set"),
    NewField("AsyncEmbeddingOptions", "use_stage_subgraph_thread_pool", 3, "bool"),
    NewField("AsyncEmbeddingOptions", "stage_subgraph_thread_pool_id", 4, "int32"),
    NewField("AsyncEmbeddingOptions", "unordered", 1001, "bool"),
    NewField("AsyncEmbeddingOptions", "timeout_millis", 1002, "int32"),
    NewField("AsyncEmbeddingOptions", "infer_io_stage", 1003, "bool"),
    NewField("AsyncEmbeddingOptions", "prefetch_priority", 1004, "int32", unset="20"),
    NewField("AsyncEmbeddingOptions", "exact", 1005, "bool"),
    NewField("AsyncEmbeddingOptions", "autotune_memory_mb", 1006, "int64", unset="512"),
    NewField("AsyncEmbeddingOptions", "staleness_sample_steps", 1007, "int64", unset="64"),
    NewField(
        "AsyncEmbeddingOptions",
        "staleness_limit",
        1008,
        "StalenessLimit",
        repeated=True,
        unset="none",
    ),
    NewField("StalenessLimit", "table", 1, "string", unset="must be set"),
    NewField("StalenessLimit", "updates", 2, "int64"),
    NewField("GroupEmbeddingOptions", "lazy_adam", 1, "bool"),
    NewField("GroupEmbeddingOptions", "minimum_lookups", 2, "int32", unset="1"),
    NewField("GroupEmbeddingOptions", "lookups", 3, "string", repeated=True, unset="all"),
    NewField("GroupEmbeddingOptions", "fuse_update", 4, "bool", unset="true"),
    NewField("GroupEmbeddingOptions", "require_server_ops", 5, "bool"),
    NewField("GroupEmbeddingOptions", "fuse_inference", 6, "bool", unset="by session"),
    NewField("GroupEmbeddingOptions", "adam", 7, "string", unset="`deferred`"),
    NewField("ShardTablesOptions", "min_table_bytes", 1, "int64", unset="67108864"),
    NewField("ShardTablesOptions", "memory_budget_bytes", 2, "int64"),
    NewField("ShardTablesOptions", "tables", 3, "string", repeated=True),
    NewField("SessionStageSubgraphThreadPoolOptions", "inter_op_threads_num", 1, "int32"),
    NewField("SessionStageSubgraphThreadPoolOptions", "intra_op_threads_num", 2, "int32"),
    NewField("SessionStageSubgraphThreadPoolOptions", "global_name", 3, "string"),
    NewField("SmartStageOptions", "capacity", 1001, "int32", unset="2"),
    NewField("SmartStageOptions", "num_threads", 1002, "int32", unset="1"),
    NewField("SmartStageOptions", "num_clients", 1003, "int32", unset="1"),
    NewField("SmartStageOptions", "timeout_millis", 1004, "int64"),
    NewField(
        "SmartStageOptions", "closed_exceptions", 1005, "int32", repeated=True, unset="OUT_OF_RANGE"
    ),
    NewField("SmartStageOptions", "ignored_exceptions", 1006, "int32", repeated=True),
    NewField("SmartStageOptions", "use_stage_subgraph_thread_pool", 1007, "bool"),
    NewField("SmartStageOptions", "stage_subgraph_thread_pool_id", 1008, "int32"),
    NewField("SmartStageOptions", "stage_subgraph_stream_id", 1009, "int32"),
    NewField("SmartStageOptions", "name", 1010, "string", unset="`smart_stage`"),
    NewField("OptimizerOptions", "micro_batch_num", 9, "int32"),
    NewField("OptimizerOptions", "do_smart_stage", 10, "bool"),
    NewField("OptimizerOptions", "do_smart_stage_gpu", 11, "bool"),
    NewField("OptimizerOptions", "do_async_embedding", 12, "bool"),
    NewField("OptimizerOptions", "async_embedding_options", 13, "AsyncEmbeddingOptions"),
    NewField("OptimizerOptions", "embedding_layer_device_placement_optimization", 14, "bool"),
    NewField("OptimizerOptions", "stage_multi_stream", 15, "bool"),
    NewField("OptimizerOptions", "do_group_embedding", 1001, "bool"),
    NewField("OptimizerOptions", "group_embedding_options", 1002, "GroupEmbeddingOptions"),
    NewField("OptimizerOptions", "stall_seconds", 1003, "int32"),
    NewField("OptimizerOptions", "shard_tables", 1004, "bool"),
    NewField("OptimizerOptions", "shard_tables_options", 1005, "ShardTablesOptions"),
    NewField("OptimizerOptions", "do_op_fusion", 1007, "bool"),
    NewField("OptimizerOptions", "stage_subgraph_on_cpu", 1008, "bool"),
    NewField("OptimizerOptions", "smart_stage_options", 1009, "SmartStageOptions"),
    NewField("OptimizerOptions", "pack_dense", 1010, "bool", unset="true"),
    NewField("OptimizerOptions", "pack_dense_max_bytes", 1011, "int64", unset="131072"),
    NewField("OptimizerOptions", "pipeline_dense", 1012, "bool"),
    NewField("OptimizerOptions", "micro_batch_rule", 1013, "string"),
    NewField("OptimizerOptions", "dense_staleness", 1015, "int32", unset="1"),
    NewField("OptimizerOptions", "shadow_steps", 1016, "int32"),
    NewField("OptimizerOptions", "shadow_difference", 1017, "string", unset="`stock`"),
    NewField("ConfigProto", "tensor_fuse", 201, "bool"),
    NewField("ConfigProto", "run_graph_mode", 203, "bool"),
    NewField("ConfigProto", "run_graph_mode_lite", 204, "bool"),
    NewField("ConfigProto", "executor_policy", 205, "int32"),
    NewField("ConfigProto", "use_per_session_stream", 206, "bool"),
    NewField("ConfigProto", "per_session_devices", 207, "string", repeated=True),
    NewField("ConfigProto", "cuda_graph_mode_options", 208, "CudaGraphModeOptions"),
    NewField(
        "ConfigProto",
        "session_stage_subgraph_thread_pool",
        209,
        "SessionStageSubgraphThreadPoolOptions",
        repeated=True,
    ),
    NewField("RunOptions", "use_stage_subgraph_thread_pool", 9, "bool"),
    NewField("RunOptions", "stage_subgraph_thread_pool_id", 10, "int32"),
)
