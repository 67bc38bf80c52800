"""Opening a training session: TensorFlow's own, or graph_opt's with its options switched on.

    stock   TensorFlow alone
    async   the lookups run ahead of the main graph
    fused   all lookups are one op, and so are their updates
    both    the fused lookups run ahead
    exact   both, and each step computes with the rows that it would have read itself

    pipelined  both; weights and gradients of dense layers travel while other steps compute
    returned   the same, but no weight misses an update of its worker
    unpacked   both, but weights and gradients of dense layers travel one by one
    deferred   fused; Adam with TensorFlow's numbers, each row moved when it is next read
    lazy       fused; Adam moves only the rows of the batch, and so is another optimizer
    sharded    tables of a script for Horovod are sharded across its ranks

This is all that differs between a stock run and an optimized run.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster, GuardedScaffold

STOCK = "stock"
ASYNC = "async"
FUSED = "fused"
BOTH = "both"
EXACT = "exact"
PIPELINED = "pipelined"
RETURNED = "returned"
UNPACKED = "unpacked"
MODES = (STOCK, ASYNC, FUSED, BOTH)
PIPELINED_MODES = (PIPELINED, RETURNED)
SERVER_MODES = (*MODES, EXACT, *PIPELINED_MODES, UNPACKED)
PREFETCHING_MODES = (ASYNC, BOTH, EXACT, *PIPELINED_MODES, UNPACKED)
DEFERRED = "deferred"
LAZY = "lazy"
SHARDED = "sharded"
ADAM_MODES = (STOCK, DEFERRED, LAZY)
FUSING_MODES = (FUSED, BOTH, EXACT, *PIPELINED_MODES, UNPACKED, DEFERRED, LAZY)

ONLY_AT_THE_END = 1 << 40  # steps between two checkpoints


DEFAULT_THREADS_NUM = 1
DEFAULT_CAPACITY = 2


class Prefetching(NamedTuple):
    """Options of the asynchronous lookups, as in graph_opt's ConfigProto.

    What is given here wins over the config file, which wins over the defaults above.

    Attributes:
      threads_num: threads that run lookups ahead of the main graph; None: not given.
      capacity: batches held ready; None: not given.
      unordered: batches may overtake each other.
      config: a text proto with any session options (see configs/).
    """

    threads_num: Optional[int] = None
    capacity: Optional[int] = None
    unordered: bool = False
    config: Optional[str] = None


DEFAULT_PREFETCHING = Prefetching()


class SessionOptions(NamedTuple):
    """How the session is opened.

    Attributes:
      mode: one of `SERVER_MODES` or `ADAM_MODES`.
      prefetching: used by the modes whose lookups run ahead.
      checkpoint_directory: where checkpoints and summaries go; None: neither is written.
      checkpoint_steps: steps between two checkpoints (one more is written at the end).
      summary_steps: steps between two summaries; 0: none.
      intra_op_threads: threads inside an operation; 0: as many as cores.
      inter_op_threads: operations run side by side; 0: as many as cores.
    """

    mode: str = STOCK
    prefetching: Prefetching = DEFAULT_PREFETCHING
    checkpoint_directory: Optional[str] = None
    checkpoint_steps: int = ONLY_AT_THE_END
    summary_steps: int = 0
    intra_op_threads: int = 0
    inter_op_threads: int = 0


def open_training_session(
    options: SessionOptions, cluster: Cluster, hooks: Sequence[tf.train.SessionRunHook] = ()
) -> Any:
    """Opens a monitored session on the default graph.

    Args:
      options: mode and everything else about the session.
      cluster: the session's target.
      hooks: session hooks.

    Returns:
      A `tf.train.MonitoredSession` (mode "stock") or graph_opt's (the others).
    """
    arguments: Dict[str, Any] = {
        "master": cluster.master,
        "is_chief": cluster.is_chief,
        "scaffold": GuardedScaffold(cluster),
        "hooks": list(hooks),
        "checkpoint_dir": options.checkpoint_directory,
        "save_checkpoint_steps": options.checkpoint_steps,
        "save_checkpoint_secs": None,
        "save_summaries_steps": options.summary_steps or None,
        "save_summaries_secs": None,
        "log_step_count_steps": options.summary_steps or None,
    }
    if options.mode == STOCK:
        config = _for_cluster(tf.ConfigProto(), options, cluster)
        return tf.train.MonitoredTrainingSession(config=config, **arguments)

    import graph_opt  # here, so that a stock run has nothing of it in its process

    config = _for_cluster(session_config(options.mode, options.prefetching), options, cluster)
    is_prefetched = options.mode in PREFETCHING_MODES
    if is_prefetched and options.checkpoint_directory and options.summary_steps:
        arguments["hooks"].append(
            graph_opt.train.PrefetchSummaryHook(
                options.checkpoint_directory, every_n_steps=options.summary_steps
            )
        )
    return graph_opt.train.MonitoredTrainingSession(config=config, **arguments)


def session_config(mode: str, prefetching: Prefetching = DEFAULT_PREFETCHING) -> Any:
    """A `graph_opt.ConfigProto` that asks for what the mode is named after.

    Args:
      mode: any of those above but "stock".
      prefetching: how lookups run ahead, where they do; and the config file.
    """
    import graph_opt

    config = (
        graph_opt.load_config(prefetching.config) if prefetching.config else graph_opt.ConfigProto()
    )
    optimizer_options = config.graph_options.optimizer_options
    optimizer_options.do_group_embedding = mode in FUSING_MODES
    optimizer_options.do_async_embedding = mode in PREFETCHING_MODES
    if mode == UNPACKED:
        optimizer_options.pack_dense = False
    if mode in PIPELINED_MODES:
        optimizer_options.pipeline_dense = True
        optimizer_options.dense_staleness = 0 if mode == RETURNED else 1
    if mode == SHARDED:
        optimizer_options.shard_tables = True
        optimizer_options.shard_tables_options.min_table_bytes = 1
    if mode in (DEFERRED, LAZY):
        optimizer_options.group_embedding_options.adam = mode
    if optimizer_options.do_async_embedding:
        _set_prefetching(optimizer_options.async_embedding_options, prefetching)
        if mode == EXACT:
            optimizer_options.async_embedding_options.exact = True
    return config


def _set_prefetching(async_options: Any, prefetching: Prefetching) -> None:
    async_options.threads_num = (
        prefetching.threads_num or async_options.threads_num or DEFAULT_THREADS_NUM
    )
    async_options.capacity = prefetching.capacity or async_options.capacity or DEFAULT_CAPACITY
    async_options.unordered = prefetching.unordered or async_options.unordered
    # The models know nothing of stages: let the pass put one behind their input.
    async_options.infer_io_stage = True


def _for_cluster(config: Any, options: SessionOptions, cluster: Cluster) -> Any:
    config.intra_op_parallelism_threads = options.intra_op_threads
    config.inter_op_parallelism_threads = options.inter_op_threads
    if cluster.place:
        config.device_filters.extend(cluster.place.device_filters)
    return config
