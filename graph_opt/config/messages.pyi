"""Written by `python -m tools.docs.message_stubs`, as graph_opt's messages are made at run time."""

from abc import ABCMeta
from typing import (
    Any,
    List,
    Literal,
    Mapping,
    MutableMapping,
    MutableSequence,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from typing_extensions import Self

from tensorflow.core.protobuf.cluster_pb2 import ClusterDef
from tensorflow.core.protobuf.config_pb2 import GPUOptions
from tensorflow.core.protobuf.config_pb2 import SessionMetadata
from tensorflow.core.protobuf.config_pb2 import ThreadPoolOptionProto
from tensorflow.core.protobuf.debug_pb2 import DebugOptions
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
CoordinationServiceConfig = Any
RPCOptions = Any

_M = TypeVar("_M")
_T = TypeVar("_T")

# Without protobuf's stubs, which pyright brings along, its `Message` is anything to mypy, and so
# would be classes derived from it: no misspelled option would be found. Only mypy reads what is
# under `if 0`, and only mypy takes `MYPY` for true.
MYPY = False
if 0:
    class _Message:
        DESCRIPTOR: Any
        def ByteSize(self) -> int: ...
        def Clear(self) -> None: ...
        def CopyFrom(self, other_msg: Self) -> None: ...
        def DiscardUnknownFields(self) -> None: ...
        @classmethod
        def FromString(cls, s: bytes) -> Self: ...
        def IsInitialized(self) -> bool: ...
        def ListFields(self) -> Sequence[Tuple[Any, Any]]: ...
        def MergeFrom(self, other_msg: Self) -> None: ...
        def MergeFromString(self, serialized: bytes) -> int: ...
        def ParseFromString(self, serialized: bytes) -> int: ...
        def SerializePartialToString(self, **kwargs: Any) -> bytes: ...
        def SerializeToString(self, **kwargs: Any) -> bytes: ...
        def SetInParent(self) -> None: ...
        def WhichOneof(self, oneof_group: str) -> Optional[str]: ...

elif not MYPY:
    from google.protobuf.message import Message as _Message

class _Enum:
    def Name(self, number: int) -> str: ...
    def Value(self, name: str) -> int: ...
    def items(self) -> List[Tuple[str, int]]: ...
    def keys(self) -> List[str]: ...
    def values(self) -> List[int]: ...

class _Scalars(MutableSequence[_T], metaclass=ABCMeta):
    def MergeFrom(self, other: Self) -> None: ...

class _Messages(Sequence[_M], metaclass=ABCMeta):
    def append(self, value: _M) -> None: ...
    def extend(self, elem_seq: Sequence[_M]) -> None: ...
    def insert(self, key: int, value: _M) -> None: ...
    def pop(self, key: int = ...) -> _M: ...
    def remove(self, elem: _M) -> None: ...
    def MergeFrom(self, other: Self) -> None: ...
    def __delitem__(self, key: Union[int, slice]) -> None: ...

class _StockMessages(_Messages[Any], metaclass=ABCMeta):
    def add(self, **fields: Any) -> Any: ...

class AsyncEmbeddingOptions(_Message):
    threads_num: int
    """Threads that take a batch, look up its rows and put both into the buffer; -1 tunes it. 1
    is enough if lookups are faster than the rest of the step; use 2 to 4 with servers some
    milliseconds away. Range: 1 to 1024, or -1. Default: must be set."""
    capacity: int
    """Batches held ready; -1 tunes it. A row may miss `capacity + threads_num` updates, so use
    2 to 8. Range: at least 1, or -1. Default: must be set."""
    use_stage_subgraph_thread_pool: bool
    """Run the prefetched lookups on one of the session's stage pools instead of the stage's own
    threads. Default: false."""
    stage_subgraph_thread_pool_id: int
    """Which pool, counting from 0. Range: 0 to pools - 1. Default: 0."""
    unordered: bool
    """Let batches of different threads overtake each other. By default, batches and errors keep
    the order of the input. No effect on lookups that exchange rows between ranks. Default:
    false."""
    timeout_millis: int
    """Milliseconds a step waits for its batch before it raises `DeadlineExceededError`; 0: no
    limit. Range: at least 0. Default: 0."""
    infer_io_stage: bool
    """Insert an IO stage behind the graph's iterator or queue if the script has no
    `staged(...)`. Default: false."""
    prefetch_priority: int
    """How far the stage's threads lower their priority while their buffer holds a batch. Range:
    -1 to 20. Default: 20."""
    exact: bool
    """Every step computes with up-to-date rows; needs `do_group_embedding`. Default: false."""
    autotune_memory_mb: int
    """Megabytes that the batches of a tuned stage may take. Range: at least 1. Default: 512."""
    staleness_sample_steps: int
    """Measure row age in one of this many training steps; 0: never. Range: at least 0. Default:
    64."""
    @property
    def staleness_limit(self) -> _StalenessLimitList:
        """How many updates rows of some tables may miss: entries with the two rows of
        `StalenessLimit`; not with `exact`. Default: none."""
    def __init__(
        self,
        *,
        threads_num: Optional[int] = ...,
        capacity: Optional[int] = ...,
        use_stage_subgraph_thread_pool: Optional[bool] = ...,
        stage_subgraph_thread_pool_id: Optional[int] = ...,
        unordered: Optional[bool] = ...,
        timeout_millis: Optional[int] = ...,
        infer_io_stage: Optional[bool] = ...,
        prefetch_priority: Optional[int] = ...,
        exact: Optional[bool] = ...,
        autotune_memory_mb: Optional[int] = ...,
        staleness_sample_steps: Optional[int] = ...,
        staleness_limit: Optional[Sequence[Union[StalenessLimit, Mapping[str, Any]]]] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["threads_num", "capacity", "use_stage_subgraph_thread_pool",
            "stage_subgraph_thread_pool_id", "unordered", "timeout_millis", "infer_io_stage",
            "prefetch_priority", "exact", "autotune_memory_mb", "staleness_sample_steps"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["threads_num", "capacity", "use_stage_subgraph_thread_pool",
            "stage_subgraph_thread_pool_id", "unordered", "timeout_millis", "infer_io_stage",
            "prefetch_priority", "exact", "autotune_memory_mb", "staleness_sample_steps",
            "staleness_limit"],
    ) -> None: ...

class ConfigProto(_Message):

    class Experimental(_Message):
        MlirBridgeRollout: _Enum
        MLIR_BRIDGE_ROLLOUT_UNSPECIFIED: int
        MLIR_BRIDGE_ROLLOUT_ENABLED: int
        MLIR_BRIDGE_ROLLOUT_DISABLED: int
        collective_group_leader: str
        executor_type: str
        recv_buf_max_chunk: int
        use_numa_affinity: bool
        collective_deterministic_sequential_execution: bool
        collective_nccl: bool
        share_session_state_in_clusterspec_propagation: bool
        disable_thread_spinning: bool
        share_cluster_devices_in_session: bool
        @property
        def session_metadata(self) -> SessionMetadata: ...
        optimize_for_static_graph: bool
        enable_mlir_bridge: bool
        @property
        def mlir_bridge_rollout(self) -> int: ...
        @mlir_bridge_rollout.setter
        def mlir_bridge_rollout(
            self,
            value: Union[int, Literal["MLIR_BRIDGE_ROLLOUT_UNSPECIFIED",
                "MLIR_BRIDGE_ROLLOUT_ENABLED", "MLIR_BRIDGE_ROLLOUT_DISABLED"]],
        ) -> None: ...
        enable_mlir_graph_optimization: bool
        disable_output_partition_graphs: bool
        xla_fusion_autotuner_thresh: int
        use_tfrt: bool
        disable_functional_ops_lowering: bool
        xla_prefer_single_graph_cluster: bool
        @property
        def coordination_config(self) -> CoordinationServiceConfig: ...
        disable_optimize_for_static_graph: bool
        disable_eager_executor_streaming_enqueue: bool
        def __init__(
            self,
            *,
            collective_group_leader: Optional[str] = ...,
            executor_type: Optional[str] = ...,
            recv_buf_max_chunk: Optional[int] = ...,
            use_numa_affinity: Optional[bool] = ...,
            collective_deterministic_sequential_execution: Optional[bool] = ...,
            collective_nccl: Optional[bool] = ...,
            share_session_state_in_clusterspec_propagation: Optional[bool] = ...,
            disable_thread_spinning: Optional[bool] = ...,
            share_cluster_devices_in_session: Optional[bool] = ...,
            session_metadata: Optional[Union[SessionMetadata, Mapping[str, Any]]] = ...,
            optimize_for_static_graph: Optional[bool] = ...,
            enable_mlir_bridge: Optional[bool] = ...,
            mlir_bridge_rollout: Optional[Union[int, Literal["MLIR_BRIDGE_ROLLOUT_UNSPECIFIED",
                "MLIR_BRIDGE_ROLLOUT_ENABLED", "MLIR_BRIDGE_ROLLOUT_DISABLED"]]] = ...,
            enable_mlir_graph_optimization: Optional[bool] = ...,
            disable_output_partition_graphs: Optional[bool] = ...,
            xla_fusion_autotuner_thresh: Optional[int] = ...,
            use_tfrt: Optional[bool] = ...,
            disable_functional_ops_lowering: Optional[bool] = ...,
            xla_prefer_single_graph_cluster: Optional[bool] = ...,
            coordination_config: Optional[Union[CoordinationServiceConfig, Mapping[str, Any]]] =
                ...,
            disable_optimize_for_static_graph: Optional[bool] = ...,
            disable_eager_executor_streaming_enqueue: Optional[bool] = ...,
            **fields: Any,
        ) -> None: ...
        def HasField(
            self,
            field_name: Literal["session_metadata", "coordination_config"],
        ) -> bool: ...
        def ClearField(
            self,
            field_name: Literal["collective_group_leader", "executor_type", "recv_buf_max_chunk",
                "use_numa_affinity", "collective_deterministic_sequential_execution",
                "collective_nccl", "share_session_state_in_clusterspec_propagation",
                "disable_thread_spinning", "share_cluster_devices_in_session", "session_metadata",
                "optimize_for_static_graph", "enable_mlir_bridge", "mlir_bridge_rollout",
                "enable_mlir_graph_optimization", "disable_output_partition_graphs",
                "xla_fusion_autotuner_thresh", "use_tfrt", "disable_functional_ops_lowering",
                "xla_prefer_single_graph_cluster", "coordination_config",
                "disable_optimize_for_static_graph", "disable_eager_executor_streaming_enqueue"],
        ) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def device_count(self) -> MutableMapping[str, int]: ...
    intra_op_parallelism_threads: int
    inter_op_parallelism_threads: int
    use_per_session_threads: bool
    @property
    def session_inter_op_thread_pool(self) -> _StockMessages: ...
    placement_period: int
    @property
    def device_filters(self) -> _Scalars[str]: ...
    @property
    def gpu_options(self) -> GPUOptions: ...
    allow_soft_placement: bool
    log_device_placement: bool
    @property
    def graph_options(self) -> GraphOptions: ...
    operation_timeout_in_ms: int
    @property
    def rpc_options(self) -> RPCOptions: ...
    @property
    def cluster_def(self) -> ClusterDef: ...
    isolate_session_state: bool
    share_cluster_devices_in_session: bool
    @property
    def experimental(self) -> ConfigProto.Experimental: ...
    tensor_fuse: bool
    """Steps run as TensorFlow runs them. Default: false."""
    run_graph_mode: bool
    """Steps run as TensorFlow runs them. Default: false."""
    run_graph_mode_lite: bool
    """Steps run as TensorFlow runs them. Default: false."""
    executor_policy: int
    """`USE_INLINE_EXECUTOR` runs a step's ops on the thread that calls `session.run` if they
    are all on one device: less overhead for small steps that several threads run. Warns in a
    session on a server, where it has no effect; so does `USE_COST_MODEL_EXECUTOR` everywhere.
    Range: `tf.ExecutorPolicy`. Default: 0."""
    use_per_session_stream: bool
    """Sessions share the device's streams. Default: false."""
    @property
    def per_session_devices(self) -> _Scalars[str]:
        """Sessions share the process's devices."""
    @property
    def cuda_graph_mode_options(self) -> CudaGraphModeOptions:
        """Steps run as TensorFlow runs them. The message has no fields."""
    @property
    def session_stage_subgraph_thread_pool(self) -> _SessionStageSubgraphThreadPoolOptionsList:
        """Thread pools for stages, in the config itself; options refer to them by position."""
    @property
    def pluggable_device_options(self) -> GPUOptions: ...
    def __init__(
        self,
        *,
        device_count: Optional[Mapping[str, int]] = ...,
        intra_op_parallelism_threads: Optional[int] = ...,
        inter_op_parallelism_threads: Optional[int] = ...,
        use_per_session_threads: Optional[bool] = ...,
        session_inter_op_thread_pool: Optional[Sequence[Union[ThreadPoolOptionProto,
            Mapping[str, Any]]]] = ...,
        placement_period: Optional[int] = ...,
        device_filters: Optional[Sequence[str]] = ...,
        gpu_options: Optional[Union[GPUOptions, Mapping[str, Any]]] = ...,
        allow_soft_placement: Optional[bool] = ...,
        log_device_placement: Optional[bool] = ...,
        graph_options: Optional[Union[GraphOptions, Mapping[str, Any]]] = ...,
        operation_timeout_in_ms: Optional[int] = ...,
        rpc_options: Optional[Union[RPCOptions, Mapping[str, Any]]] = ...,
        cluster_def: Optional[Union[ClusterDef, Mapping[str, Any]]] = ...,
        isolate_session_state: Optional[bool] = ...,
        share_cluster_devices_in_session: Optional[bool] = ...,
        experimental: Optional[Union[ConfigProto.Experimental, Mapping[str, Any]]] = ...,
        tensor_fuse: Optional[bool] = ...,
        run_graph_mode: Optional[bool] = ...,
        run_graph_mode_lite: Optional[bool] = ...,
        executor_policy: Optional[int] = ...,
        use_per_session_stream: Optional[bool] = ...,
        per_session_devices: Optional[Sequence[str]] = ...,
        cuda_graph_mode_options: Optional[Union[CudaGraphModeOptions, Mapping[str, Any]]] = ...,
        session_stage_subgraph_thread_pool:
            Optional[Sequence[Union[SessionStageSubgraphThreadPoolOptions, Mapping[str, Any]]]]
            = ...,
        pluggable_device_options: Optional[Union[GPUOptions, Mapping[str, Any]]] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["gpu_options", "graph_options", "rpc_options", "cluster_def",
            "experimental", "tensor_fuse", "run_graph_mode", "run_graph_mode_lite",
            "executor_policy", "use_per_session_stream", "cuda_graph_mode_options",
            "pluggable_device_options"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["device_count", "intra_op_parallelism_threads",
            "inter_op_parallelism_threads", "use_per_session_threads",
            "session_inter_op_thread_pool", "placement_period", "device_filters", "gpu_options",
            "allow_soft_placement", "log_device_placement", "graph_options",
            "operation_timeout_in_ms", "rpc_options", "cluster_def", "isolate_session_state",
            "share_cluster_devices_in_session", "experimental", "tensor_fuse", "run_graph_mode",
            "run_graph_mode_lite", "executor_policy", "use_per_session_stream",
            "per_session_devices", "cuda_graph_mode_options",
            "session_stage_subgraph_thread_pool", "pluggable_device_options"],
    ) -> None: ...

class CudaGraphModeOptions(_Message):
    def __init__(
        self,
    ) -> None: ...

class GraphOptions(_Message):
    enable_recv_scheduling: bool
    @property
    def optimizer_options(self) -> OptimizerOptions: ...
    build_cost_model: int
    build_cost_model_after: int
    infer_shapes: bool
    place_pruned_graph: bool
    enable_bfloat16_sendrecv: bool
    timeline_step: int
    @property
    def rewrite_options(self) -> RewriterConfig: ...
    def __init__(
        self,
        *,
        enable_recv_scheduling: Optional[bool] = ...,
        optimizer_options: Optional[Union[OptimizerOptions, Mapping[str, Any]]] = ...,
        build_cost_model: Optional[int] = ...,
        build_cost_model_after: Optional[int] = ...,
        infer_shapes: Optional[bool] = ...,
        place_pruned_graph: Optional[bool] = ...,
        enable_bfloat16_sendrecv: Optional[bool] = ...,
        timeline_step: Optional[int] = ...,
        rewrite_options: Optional[Union[RewriterConfig, Mapping[str, Any]]] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["optimizer_options", "rewrite_options"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["enable_recv_scheduling", "optimizer_options", "build_cost_model",
            "build_cost_model_after", "infer_shapes", "place_pruned_graph",
            "enable_bfloat16_sendrecv", "timeline_step", "rewrite_options"],
    ) -> None: ...

class GroupEmbeddingOptions(_Message):
    lazy_adam: bool
    """The older spelling of `adam: "lazy"`. Default: false."""
    minimum_lookups: int
    """Leave groups of fewer lookups unchanged. Range: at least 0. Default: 1."""
    @property
    def lookups(self) -> _Scalars[str]:
        """Fuse only lookups whose name, or whose variable's name, matches one of these in part.
        Range: regular expressions. Default: all."""
    fuse_update: bool
    """Fuse the optimizers' updates as well. Default: true."""
    require_server_ops: bool
    """Raise an error if a parameter server has not loaded graph_opt's ops, or has those of
    another release. If off, TensorFlow's ops look up that server's tables. Default: false."""
    fuse_inference: bool
    """Fuse lookups in graphs that train nothing; set to true, those of dynamic tables make no
    rows. Unset, monitored sessions fuse (`Estimator.evaluate`, `predict`) and plain sessions do
    not; `graph_opt.optimize_graph` always does. Default: by session."""
    adam: str
    """What happens to updates that move every row in each step: Adam, AdamW, momentum,
    penalties on whole tables (all of them). `deferred`: fused; a row catches up when it is next
    read. `lazy`: fused; rows that are not looked up do not move. `stock`: left to TensorFlow.
    Range: `deferred`, `lazy` or `stock`. Default: `deferred`."""
    def __init__(
        self,
        *,
        lazy_adam: Optional[bool] = ...,
        minimum_lookups: Optional[int] = ...,
        lookups: Optional[Sequence[str]] = ...,
        fuse_update: Optional[bool] = ...,
        require_server_ops: Optional[bool] = ...,
        fuse_inference: Optional[bool] = ...,
        adam: Optional[str] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["lazy_adam", "minimum_lookups", "fuse_update", "require_server_ops",
            "fuse_inference", "adam"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["lazy_adam", "minimum_lookups", "lookups", "fuse_update",
            "require_server_ops", "fuse_inference", "adam"],
    ) -> None: ...

class OptimizerOptions(_Message):
    Level: _Enum
    L1: int
    L0: int
    GlobalJitLevel: _Enum
    DEFAULT: int
    OFF: int
    ON_1: int
    ON_2: int
    do_common_subexpression_elimination: bool
    do_constant_folding: bool
    max_folded_constant_in_bytes: int
    do_function_inlining: bool
    @property
    def opt_level(self) -> int: ...
    @opt_level.setter
    def opt_level(
        self,
        value: Union[int, Literal["L1", "L0"]],
    ) -> None: ...
    @property
    def global_jit_level(self) -> int: ...
    @global_jit_level.setter
    def global_jit_level(
        self,
        value: Union[int, Literal["DEFAULT", "OFF", "ON_1", "ON_2"]],
    ) -> None: ...
    cpu_global_jit: bool
    micro_batch_num: int
    """Divide each training step's batch into this many parts, or sum the gradients of this many
    batches; 0 and 1: off. Range: at least 0. Default: 0."""
    do_smart_stage: bool
    """Run everything between a batch and the variables (decoding, hashing, normalizing) ahead
    of the main graph. Default: false."""
    do_smart_stage_gpu: bool
    """The same as `do_smart_stage`; warns. Default: false."""
    do_async_embedding: bool
    """Run embedding lookups in threads of their own, ahead of the main graph. Default:
    false."""
    @property
    def async_embedding_options(self) -> AsyncEmbeddingOptions:
        """How they run ahead: the rows below."""
    embedding_layer_device_placement_optimization: bool
    """Devices stay as the graph has them. Default: false."""
    stage_multi_stream: bool
    """Stages share the device's stream. Default: false."""
    do_group_embedding: bool
    """Replace many lookups with one op: forward, backward and update. Default: false."""
    @property
    def group_embedding_options(self) -> GroupEmbeddingOptions:
        """What is fused: the rows below."""
    stall_seconds: int
    """How long a call waits for a server that does not answer, or a step for other ranks,
    before an error says who is missing; 0: no limit, one line after a minute. Range: at least
    0. Default: 0."""
    shard_tables: bool
    """Shard large tables of a Horovod script among its ranks. Default: false."""
    @property
    def shard_tables_options(self) -> ShardTablesOptions:
        """Which tables: the rows below."""
    do_op_fusion: bool
    """TensorFlow's own optimizers fuse ops. Default: false."""
    stage_subgraph_on_cpu: bool
    """Run all of a smart stage on the CPU of its task. Default: false."""
    @property
    def smart_stage_options(self) -> SmartStageOptions:
        """How it runs: the rows below. `tf.SmartStageOptions(...)` makes the message."""
    pack_dense: bool
    """Send the dense weights a worker reads from a server as one tensor, and their gradients as
    another (how); values and order stay TensorFlow's. Needs `do_async_embedding`,
    `do_group_embedding` or `pipeline_dense`. Default: true."""
    pack_dense_max_bytes: int
    """Send larger weights and gradients alone, since copying them takes longer than a call.
    Range: at least 1. Default: 131072."""
    pipeline_dense: bool
    """Pull the next step's dense weights and push the last step's gradients while this step
    computes (what changes). Default: false."""
    micro_batch_rule: str
    """Which of the two. Unset: parts, and batches where rows of a batch depend on each other.
    Range: `parts` or `batches`. Default: ""."""
    dense_staleness: int
    """How many of its own updates a worker's weights miss with `pipeline_dense`. Range: 0 to 1.
    Default: 1."""
    shadow_steps: int
    """Compare the losses of this many first training steps with those of TensorFlow's own ops.
    Range: at least 0. Default: 0."""
    shadow_difference: str
    """After a step that differs: `stock` continues with TensorFlow's ops, `fail` raises
    `InternalError`. Range: `stock` or `fail`. Default: `stock`."""
    def __init__(
        self,
        *,
        do_common_subexpression_elimination: Optional[bool] = ...,
        do_constant_folding: Optional[bool] = ...,
        max_folded_constant_in_bytes: Optional[int] = ...,
        do_function_inlining: Optional[bool] = ...,
        opt_level: Optional[Union[int, Literal["L1", "L0"]]] = ...,
        global_jit_level: Optional[Union[int, Literal["DEFAULT", "OFF", "ON_1", "ON_2"]]] = ...,
        cpu_global_jit: Optional[bool] = ...,
        micro_batch_num: Optional[int] = ...,
        do_smart_stage: Optional[bool] = ...,
        do_smart_stage_gpu: Optional[bool] = ...,
        do_async_embedding: Optional[bool] = ...,
        async_embedding_options: Optional[Union[AsyncEmbeddingOptions, Mapping[str, Any]]] =
            ...,
        embedding_layer_device_placement_optimization: Optional[bool] = ...,
        stage_multi_stream: Optional[bool] = ...,
        do_group_embedding: Optional[bool] = ...,
        group_embedding_options: Optional[Union[GroupEmbeddingOptions, Mapping[str, Any]]] =
            ...,
        stall_seconds: Optional[int] = ...,
        shard_tables: Optional[bool] = ...,
        shard_tables_options: Optional[Union[ShardTablesOptions, Mapping[str, Any]]] = ...,
        do_op_fusion: Optional[bool] = ...,
        stage_subgraph_on_cpu: Optional[bool] = ...,
        smart_stage_options: Optional[Union[SmartStageOptions, Mapping[str, Any]]] = ...,
        pack_dense: Optional[bool] = ...,
        pack_dense_max_bytes: Optional[int] = ...,
        pipeline_dense: Optional[bool] = ...,
        micro_batch_rule: Optional[str] = ...,
        dense_staleness: Optional[int] = ...,
        shadow_steps: Optional[int] = ...,
        shadow_difference: Optional[str] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["micro_batch_num", "do_smart_stage", "do_smart_stage_gpu",
            "do_async_embedding", "async_embedding_options",
            "embedding_layer_device_placement_optimization", "stage_multi_stream",
            "do_group_embedding", "group_embedding_options", "stall_seconds", "shard_tables",
            "shard_tables_options", "do_op_fusion", "stage_subgraph_on_cpu",
            "smart_stage_options", "pack_dense", "pack_dense_max_bytes", "pipeline_dense",
            "micro_batch_rule", "dense_staleness", "shadow_steps", "shadow_difference"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["do_common_subexpression_elimination", "do_constant_folding",
            "max_folded_constant_in_bytes", "do_function_inlining", "opt_level",
            "global_jit_level", "cpu_global_jit", "micro_batch_num", "do_smart_stage",
            "do_smart_stage_gpu", "do_async_embedding", "async_embedding_options",
            "embedding_layer_device_placement_optimization", "stage_multi_stream",
            "do_group_embedding", "group_embedding_options", "stall_seconds", "shard_tables",
            "shard_tables_options", "do_op_fusion", "stage_subgraph_on_cpu",
            "smart_stage_options", "pack_dense", "pack_dense_max_bytes", "pipeline_dense",
            "micro_batch_rule", "dense_staleness", "shadow_steps", "shadow_difference"],
    ) -> None: ...

class RunOptions(_Message):
    TraceLevel: _Enum
    NO_TRACE: int
    SOFTWARE_TRACE: int
    HARDWARE_TRACE: int
    FULL_TRACE: int

    class Experimental(_Message):

        class RunHandlerPoolOptions(_Message):
            priority: int
            def __init__(
                self,
                *,
                priority: Optional[int] = ...,
            ) -> None: ...
            def ClearField(
                self,
                field_name: Literal["priority"],
            ) -> None: ...

        collective_graph_key: int
        use_run_handler_pool: bool
        @property
        def run_handler_pool_options(self) -> RunOptions.Experimental.RunHandlerPoolOptions: ...
        def __init__(
            self,
            *,
            collective_graph_key: Optional[int] = ...,
            use_run_handler_pool: Optional[bool] = ...,
            run_handler_pool_options: Optional[Union[RunOptions.Experimental.RunHandlerPoolOptions,
                Mapping[str, Any]]] = ...,
            **fields: Any,
        ) -> None: ...
        def HasField(
            self,
            field_name: Literal["run_handler_pool_options"],
        ) -> bool: ...
        def ClearField(
            self,
            field_name: Literal["collective_graph_key", "use_run_handler_pool",
                "run_handler_pool_options"],
        ) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    @property
    def trace_level(self) -> int: ...
    @trace_level.setter
    def trace_level(
        self,
        value: Union[int, Literal["NO_TRACE", "SOFTWARE_TRACE", "HARDWARE_TRACE",
            "FULL_TRACE"]],
    ) -> None: ...
    timeout_in_ms: int
    inter_op_thread_pool: int
    output_partition_graphs: bool
    @property
    def debug_options(self) -> DebugOptions: ...
    report_tensor_allocations_upon_oom: bool
    @property
    def experimental(self) -> RunOptions.Experimental: ...
    use_stage_subgraph_thread_pool: bool
    """Run this step on one of the session's stage pools. Warns in a session on a server, where
    it has no effect. Default: false."""
    stage_subgraph_thread_pool_id: int
    """Which pool, counting from 0. Range: 0 to pools - 1. Default: 0."""
    def __init__(
        self,
        *,
        trace_level: Optional[Union[int, Literal["NO_TRACE", "SOFTWARE_TRACE", "HARDWARE_TRACE",
            "FULL_TRACE"]]] = ...,
        timeout_in_ms: Optional[int] = ...,
        inter_op_thread_pool: Optional[int] = ...,
        output_partition_graphs: Optional[bool] = ...,
        debug_options: Optional[Union[DebugOptions, Mapping[str, Any]]] = ...,
        report_tensor_allocations_upon_oom: Optional[bool] = ...,
        experimental: Optional[Union[RunOptions.Experimental, Mapping[str, Any]]] = ...,
        use_stage_subgraph_thread_pool: Optional[bool] = ...,
        stage_subgraph_thread_pool_id: Optional[int] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["debug_options", "experimental", "use_stage_subgraph_thread_pool",
            "stage_subgraph_thread_pool_id"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["trace_level", "timeout_in_ms", "inter_op_thread_pool",
            "output_partition_graphs", "debug_options", "report_tensor_allocations_upon_oom",
            "experimental", "use_stage_subgraph_thread_pool", "stage_subgraph_thread_pool_id"],
    ) -> None: ...

class _SessionStageSubgraphThreadPoolOptionsList(_Messages[SessionStageSubgraphThreadPoolOptions], metaclass=ABCMeta):
    def add(
        self,
        *,
        inter_op_threads_num: Optional[int] = ...,
        intra_op_threads_num: Optional[int] = ...,
        global_name: Optional[str] = ...,
    ) -> SessionStageSubgraphThreadPoolOptions: ...

class SessionStageSubgraphThreadPoolOptions(_Message):
    inter_op_threads_num: int
    """Threads that run the ops of a stage; 0: as many as the main pool has. Range: 0 to 1024.
    Default: 0."""
    intra_op_threads_num: int
    """Threads within one op, for graph_opt's own kernels; 0: those of the session. Range: 0 to
    1024. Default: 0."""
    global_name: str
    """Sessions of a process that give the same name share the pool. Default: ""."""
    def __init__(
        self,
        *,
        inter_op_threads_num: Optional[int] = ...,
        intra_op_threads_num: Optional[int] = ...,
        global_name: Optional[str] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["inter_op_threads_num", "intra_op_threads_num", "global_name"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["inter_op_threads_num", "intra_op_threads_num", "global_name"],
    ) -> None: ...

class ShardTablesOptions(_Message):
    min_table_bytes: int
    """Tables smaller than this, with the optimizer's slots, stay whole on every rank. With
    `memory_budget_bytes`, the default is 0. Range: at least 0. Default: 67108864."""
    memory_budget_bytes: int
    """Shard the largest tables until a rank's tables and slots fit into this, and draw initial
    values of larger tables row by row; 0: no budget. Range: at least 0. Default: 0."""
    @property
    def tables(self) -> _Scalars[str]:
        """Variables to shard whatever their size. Range: names."""
    def __init__(
        self,
        *,
        min_table_bytes: Optional[int] = ...,
        memory_budget_bytes: Optional[int] = ...,
        tables: Optional[Sequence[str]] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["min_table_bytes", "memory_budget_bytes"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["min_table_bytes", "memory_budget_bytes", "tables"],
    ) -> None: ...

class SmartStageOptions(_Message):
    capacity: int
    """Batches held ready; -1 tunes it within `async_embedding_options.autotune_memory_mb`.
    `tf.SmartStageOptions()` sets 1. Range: at least 1, or -1. Default: 2."""
    num_threads: int
    """Threads that fill the stage; -1 tunes it. Batches keep their order. Range: 1 to 1024, or
    -1. Default: 1."""
    num_clients: int
    """Multiplies `capacity`. Range: at least 1. Default: 1."""
    timeout_millis: int
    """Milliseconds a step waits for its batch; 0: no limit. `tf.SmartStageOptions()` sets
    300000. Range: at least 0. Default: 0."""
    @property
    def closed_exceptions(self) -> _Scalars[int]:
        """Errors that end the input. Range: error codes. Default: OUT_OF_RANGE."""
    @property
    def ignored_exceptions(self) -> _Scalars[int]:
        """Errors for which a batch is skipped. Range: error codes."""
    use_stage_subgraph_thread_pool: bool
    """Run the stage on one of the session's stage pools. Default: false."""
    stage_subgraph_thread_pool_id: int
    """Which pool, counting from 0. Range: 0 to pools - 1. Default: 0."""
    stage_subgraph_stream_id: int
    """No effect; warns. Default: 0."""
    name: str
    """Name of the stage. Range: name of a node. Default: `smart_stage`."""
    def __init__(
        self,
        *,
        capacity: Optional[int] = ...,
        num_threads: Optional[int] = ...,
        num_clients: Optional[int] = ...,
        timeout_millis: Optional[int] = ...,
        closed_exceptions: Optional[Sequence[int]] = ...,
        ignored_exceptions: Optional[Sequence[int]] = ...,
        use_stage_subgraph_thread_pool: Optional[bool] = ...,
        stage_subgraph_thread_pool_id: Optional[int] = ...,
        stage_subgraph_stream_id: Optional[int] = ...,
        name: Optional[str] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["capacity", "num_threads", "num_clients", "timeout_millis",
            "use_stage_subgraph_thread_pool", "stage_subgraph_thread_pool_id",
            "stage_subgraph_stream_id", "name"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["capacity", "num_threads", "num_clients", "timeout_millis",
            "closed_exceptions", "ignored_exceptions", "use_stage_subgraph_thread_pool",
            "stage_subgraph_thread_pool_id", "stage_subgraph_stream_id", "name"],
    ) -> None: ...

class _StalenessLimitList(_Messages[StalenessLimit], metaclass=ABCMeta):
    def add(
        self,
        *,
        table: Optional[str] = ...,
        updates: Optional[int] = ...,
    ) -> StalenessLimit: ...

class StalenessLimit(_Message):
    table: str
    """Matches part of the name of the table's variable; the first entry that matches applies.
    Range: regular expression. Default: must be set."""
    updates: int
    """How many updates rows of such a table may miss. Range: at least 0. Default: 0."""
    def __init__(
        self,
        *,
        table: Optional[str] = ...,
        updates: Optional[int] = ...,
    ) -> None: ...
    def HasField(
        self,
        field_name: Literal["table", "updates"],
    ) -> bool: ...
    def ClearField(
        self,
        field_name: Literal["table", "updates"],
    ) -> None: ...


class _StockConfig(Protocol):
    allow_soft_placement: bool
    def SerializeToString(self) -> bytes: ...

SessionConfig = Union[ConfigProto, _StockConfig]
StockConfigProto: Any
StockRunOptions: Any
