"""Which options of a config do nothing in this version, or together with others."""

from __future__ import annotations

from typing import Any, List, Sequence

from graph_opt.config.deeprec_options import ExecutorPolicy
from graph_opt.config.messages import ConfigProto
from graph_opt.ops.stage_spec import AUTO

# After 1000 steps, the loss of a small regression model is 1.2 times as high if rows miss 16
# updates, 1.4 to 2 times if they miss 32, 3 times at 64 and 15 to 60 times at 128.
_MOST_MISSED_UPDATES = 32
_OPTIMIZER = "graph_options.optimizer_options"
_ASYNC = _OPTIMIZER + ".async_embedding_options"
_POOLS = "session_stage_subgraph_thread_pool"

_WITHOUT_EFFECT = (
    ("embedding_layer_device_placement_optimization", "devices stay as the graph has them"),
    ("stage_multi_stream", "stages share the device's stream"),
    ("do_op_fusion", "ops are fused by TensorFlow's own optimizers only"),
)
_OF_SESSIONS_WITHOUT_EFFECT = (
    ("tensor_fuse", "steps run as TensorFlow runs them"),
    ("run_graph_mode", "steps run as TensorFlow runs them"),
    ("run_graph_mode_lite", "steps run as TensorFlow runs them"),
    ("use_per_session_stream", "sessions share the device's streams"),
    ("per_session_devices", "sessions share the process's devices"),
)


def config_warnings(config: ConfigProto) -> List[str]:
    """A sentence for each option of a ConfigProto itself that does nothing."""
    warnings = [
        "{} has no effect in this version: {}".format(name, instead)
        for name, instead in _OF_SESSIONS_WITHOUT_EFFECT
        if getattr(config, name)
    ]
    if config.HasField("cuda_graph_mode_options"):
        warnings.append(
            "cuda_graph_mode_options has no effect in this version: steps run as TensorFlow runs "
            "them"
        )
    if config.executor_policy not in (
        ExecutorPolicy.USE_NORMAL_EXECUTOR,
        ExecutorPolicy.USE_INLINE_EXECUTOR,
    ):
        warnings.append(
            "executor_policy {} has no effect in this version: ops run in the order and on the "
            "threads that TensorFlow chooses".format(config.executor_policy)
        )
    return warnings


def option_warnings(optimizer: Any, pools: Sequence[Any]) -> List[str]:
    """A sentence for each option of an OptimizerOptions that does nothing, or may do harm.

    Args:
      optimizer: The message.
      pools: The session's stage pools.
    """
    warnings = []
    asynchronous = optimizer.do_async_embedding
    if _is_forgotten(optimizer, "async_embedding"):
        warnings.append(
            "{}.async_embedding_options is set but do_async_embedding is not: "
            "lookups are not prefetched".format(_OPTIMIZER)
        )
    warnings.extend(_smart_stage_warnings(optimizer))
    for name, instead in _WITHOUT_EFFECT:
        if getattr(optimizer, name):
            warnings.append(
                "{}.{} has no effect in this version: {}".format(_OPTIMIZER, name, instead)
            )
    if optimizer.pack_dense and not (
        asynchronous or optimizer.do_group_embedding or optimizer.pipeline_dense
    ):
        warnings.append(
            "{}.pack_dense has no effect without do_async_embedding, do_group_embedding or "
            "pipeline_dense".format(_OPTIMIZER)
        )
    if optimizer.dense_staleness and not optimizer.pipeline_dense:
        warnings.append(
            "{}.dense_staleness has no effect without pipeline_dense".format(_OPTIMIZER)
        )
    if optimizer.HasField("shadow_difference") and not optimizer.shadow_steps:
        warnings.append(
            "{}.shadow_difference has no effect without shadow_steps".format(_OPTIMIZER)
        )
    if _is_forgotten(optimizer, "group_embedding"):
        warnings.append(
            "{}.group_embedding_options has no effect without do_group_embedding".format(_OPTIMIZER)
        )
    if optimizer.HasField("shard_tables_options") and not optimizer.HasField("shard_tables"):
        warnings.append(
            "{}.shard_tables_options has no effect without shard_tables".format(_OPTIMIZER)
        )
    warnings.extend(_pool_warnings(optimizer, pools))
    if asynchronous:
        warnings.extend(_staleness_warnings(optimizer.async_embedding_options))
    warnings.extend(_tuning_warnings(optimizer))
    return warnings


def _is_forgotten(optimizer: Any, feature: str) -> bool:
    """Whether a feature's options are set, but not whether the feature is on."""
    return bool(
        optimizer.HasField(feature + "_options") and not optimizer.HasField("do_" + feature)
    )


def _staleness_warnings(options: Any) -> List[str]:
    # What is tuned stays small by itself.
    missed = max(options.capacity, 1) + max(options.threads_num, 1)
    if missed <= _MOST_MISSED_UPDATES or options.exact:
        return []
    return [
        "{}.capacity is {} and threads_num {}: a row that is looked up may miss the last {} "
        "updates, which slows learning down or spoils it. If the buffer is empty when main wants a "
        "batch, more threads help, more room does not: set capacity to 2 to 8, and raise "
        "threads_num".format(_ASYNC, options.capacity, options.threads_num, missed)
    ]


def _tuning_warnings(optimizer: Any) -> List[str]:
    options, smart = optimizer.async_embedding_options, optimizer.smart_stage_options
    sizes = (options.threads_num, options.capacity, smart.num_threads, smart.capacity)
    if not options.HasField("autotune_memory_mb") or AUTO in sizes:
        return []
    return [
        "{}.autotune_memory_mb has no effect unless threads_num or capacity is -1, or in "
        "smart_stage_options num_threads or capacity".format(_ASYNC)
    ]


def _smart_stage_warnings(optimizer: Any) -> List[str]:
    warnings = []
    if optimizer.do_smart_stage_gpu:
        warnings.append(
            "{}.do_smart_stage_gpu means the same as do_smart_stage in this version: what runs "
            "ahead stays on the devices that the graph gives it, and its buffer on the CPU".format(
                _OPTIMIZER
            )
        )
    if optimizer.do_smart_stage or optimizer.do_smart_stage_gpu:
        if optimizer.smart_stage_options.stage_subgraph_stream_id:
            warnings.append(
                "{}.smart_stage_options.stage_subgraph_stream_id has no effect in this version: "
                "stages share the device's stream".format(_OPTIMIZER)
            )
        return warnings
    if optimizer.HasField("smart_stage_options"):
        warnings.append(
            "{}.smart_stage_options has no effect without do_smart_stage".format(_OPTIMIZER)
        )
    if optimizer.stage_subgraph_on_cpu:
        warnings.append(
            "{}.stage_subgraph_on_cpu has no effect without do_smart_stage".format(_OPTIMIZER)
        )
    return warnings


def _pool_warnings(optimizer: Any, pools: Sequence[Any]) -> List[str]:
    warnings = []
    options = optimizer.async_embedding_options
    if options.stage_subgraph_thread_pool_id and not options.use_stage_subgraph_thread_pool:
        warnings.append(
            "{}.stage_subgraph_thread_pool_id has no effect without "
            "use_stage_subgraph_thread_pool".format(_ASYNC)
        )
    if any(pool.intra_op_threads_num for pool in pools) and not (
        optimizer.do_async_embedding and options.use_stage_subgraph_thread_pool
    ):
        warnings.append(
            "{}.intra_op_threads_num has no effect without do_async_embedding and its option "
            "use_stage_subgraph_thread_pool".format(_POOLS)
        )
    return warnings


def local_warnings(optimizer: Any) -> List[str]:
    """A sentence for each option that does nothing in a session without a server."""
    options = optimizer.async_embedding_options
    if not (options.use_stage_subgraph_thread_pool and options.HasField("prefetch_priority")):
        return []
    return [
        "{}.prefetch_priority has no effect with use_stage_subgraph_thread_pool: it only "
        "applies to the stages' own threads".format(_ASYNC)
    ]


def server_warnings(config: ConfigProto) -> List[str]:
    """A sentence for each option of a ConfigProto that does nothing in a session on a server."""
    warnings = []
    optimizer = config.graph_options.optimizer_options
    options, smart = optimizer.async_embedding_options, optimizer.smart_stage_options
    if optimizer.do_async_embedding and options.use_stage_subgraph_thread_pool:
        warnings.append(
            "{}.use_stage_subgraph_thread_pool has no effect in a session on a server, which has "
            "no pools for ops: only intra_op_threads_num of the pool is used there".format(_ASYNC)
        )
    is_smart = optimizer.do_smart_stage or optimizer.do_smart_stage_gpu
    if is_smart and smart.use_stage_subgraph_thread_pool:
        warnings.append(
            "{}.smart_stage_options.use_stage_subgraph_thread_pool has no effect in a session on a "
            "server, which has no pools for ops".format(_OPTIMIZER)
        )
    priority = options.prefetch_priority
    if optimizer.do_async_embedding and priority > 0 and not optimizer.do_group_embedding:
        warnings.append(
            "{}.prefetch_priority has no effect in a session on a server without "
            "do_group_embedding: TensorFlow runs its own ops on the worker's threads".format(_ASYNC)
        )
    if config.executor_policy == ExecutorPolicy.USE_INLINE_EXECUTOR:
        warnings.append(
            "executor_policy has no effect in a session on a server: TensorFlow runs ops on the "
            "worker's threads"
        )
    return warnings
