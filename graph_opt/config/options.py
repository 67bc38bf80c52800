"""The options of a session as validated values: what the other rooms read.

`session_options` alone reads the added fields; it says which are wrong, and which do nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, FrozenSet, Optional, Sequence, Tuple

from graph_opt.config.convert import extend
from graph_opt.config.messages import ConfigProto, SessionConfig
from graph_opt.config.micro_batches import MicroBatchOptions, micro_batches
from graph_opt.config.option_checks import (
    ASYNC,
    MAX_THREADS,
    POOLS,
    check_choice,
    check_exact,
    check_pattern,
    check_size,
    fail,
    invalid,
    pool_number,
    require_set,
    tuning_bytes,
)
from graph_opt.config.option_warnings import (
    config_warnings,
    local_warnings,
    option_warnings,
    server_warnings,
)
from graph_opt.config.pipeline_options import PipelineOptions, pipeline_options
from graph_opt.config.shadow_options import ShadowOptions, shadow_options
from graph_opt.config.smart_stage import SmartStageOptions, smart_stage
from graph_opt.config.staleness import DEFAULT_STALENESS, StalenessOptions, staleness_options
from graph_opt.ops.stage_spec import (
    DEFAULT_PRIORITY,
    DEFAULT_TUNING_BYTES,
    IDLE_PRIORITY,
    MAINS_THREADS,
    NO_THREAD_POOL,
)

DEFERRED_ADAM, LAZY_ADAM, STOCK_ADAM = "deferred", "lazy", "stock"
DEFAULT_MIN_TABLE_BYTES = 64 << 20
DEFAULT_PACK_DENSE_MAX_BYTES = 128 << 10
ADAMS = (DEFERRED_ADAM, LAZY_ADAM, STOCK_ADAM)
"""What becomes of Adam's update: fused, with each row caught up before it is read; fused, and
rows that were not looked up stay as they are; or left as TensorFlow wrote it."""
_GROUP = "graph_options.optimizer_options.group_embedding_options"
_SHARD = "graph_options.optimizer_options.shard_tables_options"
_OPTIMIZER = "graph_options.optimizer_options"


@dataclass(frozen=True)
class ThreadPool:
    """One pool of `session_stage_subgraph_thread_pool`.

    Attributes:
      inter_op_threads_num: Threads that run ops; 0: as many as the session's main pool.
      intra_op_threads_num: Threads within one op of ours; 0: those of the session.
      global_name: Sessions that give the same name share the pool; "": this session's own.
    """

    inter_op_threads_num: int
    intra_op_threads_num: int
    global_name: str


@dataclass(frozen=True)
class AsyncEmbeddingOptions:
    """How lookups are prefetched.

    Attributes:
      threads_num: Threads that fill the buffer, 1 to 1024; -1: tuned.
      capacity: Batches that the buffer holds ready, at least 1; -1: tuned. A looked-up row may miss
        up to `capacity + threads_num` updates, unless `exact`.
      thread_pool: Index into the session's stage pools; -1: none, `prefetch_priority` decides.
      intra_op_threads: Threads of that pool for the work of our own kernels; 0: the session's.
      unordered: Batches may overtake each other on the way to the main graph.
      timeout_millis: The longest that one step waits for a batch, in milliseconds; 0: no limit.
      infer_io_stage: Insert a stage behind the graph's iterator or queue if it has none.
      prefetch_priority: How far the stages' threads lower their priority while their buffer holds
        a batch, -1 to 20. 0: not at all; 1 to 19: by this nice value; 20: below all others. -1: the
        ops run on the main graph's threads instead.
      tuning_bytes: What batches may take where threads or capacity are tuned.
      exact: Every step computes with the rows that it would have read itself; lookups for which
        this cannot be had do not run ahead.
      staleness: How old rows may be, and how many steps tell it.
      is_sampled: Whether a session is there to run what tells it. Not part of a config.
      is_served: Whether its variables are a server's, which others may write. The session knows.
    """

    threads_num: int
    capacity: int
    thread_pool: int = NO_THREAD_POOL
    intra_op_threads: int = 0
    unordered: bool = False
    timeout_millis: int = 0
    infer_io_stage: bool = False
    prefetch_priority: int = DEFAULT_PRIORITY
    tuning_bytes: int = DEFAULT_TUNING_BYTES
    exact: bool = False
    staleness: StalenessOptions = DEFAULT_STALENESS
    is_sampled: bool = False
    is_served: bool = False


@dataclass(frozen=True)
class GroupEmbeddingOptions:
    """Which lookups are fused, and how much of them.

    Attributes:
      minimum_lookups: Groups of fewer lookups are left unchanged; at least 1.
      lookups: Regular expressions; a lookup is fused if one of them matches part of its name or of
        the name of one of its variables. Empty: all lookups are.
      fuse_update: Replace the optimizers' updates, too.
      adam: One of `ADAMS`: what becomes of updates that move every row of a table, such as Adam's.
      require_server_ops: Raise an error if a parameter server has not loaded these ops of
        graph_opt. If False, TensorFlow's ops look up the tables of such a server.
      fuse_inference: Whether sessions also fuse the lookups of graphs that train nothing. None:
        monitored ones do, whose graphs are complete, such as those of `Estimator.evaluate`. True:
        lookups of dynamic tables in such graphs also make no rows, fused or not.
    """

    minimum_lookups: int = 1
    lookups: Tuple[str, ...] = ()
    fuse_update: bool = True
    adam: str = DEFERRED_ADAM
    require_server_ops: bool = False
    fuse_inference: Optional[bool] = None


@dataclass(frozen=True)
class ShardTablesOptions:
    """Which tables of a Horovod script are sharded across its ranks.

    Attributes:
      min_table_bytes: Tables of fewer bytes stay whole on every rank; slots count. 0: all tables
        that can be divided are.
      memory_budget_bytes: What the tables of a rank and their slots may take: the largest are
        divided until the rest fits. 0: no budget.
      tables: Names of variables that are divided whatever their size.
      only_marked: Divide nothing but `tables`. Not part of a config: scripts that mark their tables
        ask for it.
    """

    min_table_bytes: int = DEFAULT_MIN_TABLE_BYTES
    memory_budget_bytes: int = 0
    tables: Tuple[str, ...] = ()
    only_marked: bool = False


@dataclass(frozen=True)
class Ranks:
    """The processes among which tables are sharded.

    Attributes:
      rank: Number of this one.
      size: How many there are.
      group: Name of the group of threads that they are; "" for processes that Horovod started.
      elastic: Whether ranks may come and go while the session is open.
    """

    rank: int
    size: int
    group: str = ""
    elastic: bool = False


SWITCHES = (
    "do_async_embedding", "do_group_embedding", "shard_tables", "do_smart_stage", "micro_batch_num",
    "pipeline_dense",
)  # fmt: skip
"""The options of `OptimizerOptions` that turn an optimization on."""


@dataclass(frozen=True)
class SessionOptions:
    """All options of a session that concern graph_opt.

    Attributes:
      async_embedding: None when `do_async_embedding` is off.
      thread_pools: The stages' pools, which `AsyncEmbeddingOptions.thread_pool` is an index into.
      group_embedding: None when `do_group_embedding` is off.
      shard_tables: None when `shard_tables` is off.
      smart_stage: None when `do_smart_stage` is off.
      micro_batches: None when `micro_batch_num` is less than 2.
      pack_dense_max_bytes: Weights and gradients of dense layers that have at most so many bytes
        travel as one; 0: each travels alone. Only where lookups run ahead or are fused.
      pipeline_dense: How a stage pulls weights and pushes gradients; None when the option is off.
      shadow: How the first steps are compared with TensorFlow's; None if they are not.
      stall_seconds: How long a step may wait for other ranks; 0: no limit.
      warnings: Sentences for the log, one for each accepted option that has no effect.
      servers_with_ops: Other tasks that have graph_opt's ops. It and what follows is in no config.
      fetched: Names of tensors that the session is known to fetch.
      ranks: The ranks of the process's group; None if there is none.
      served: The nodes that each kind of request to a graph that serves fetches.
      evaluates: Whether the session trains nothing, although its graph may have an optimizer.
    """

    async_embedding: Optional[AsyncEmbeddingOptions] = None
    thread_pools: Tuple[ThreadPool, ...] = ()
    group_embedding: Optional[GroupEmbeddingOptions] = None
    shard_tables: Optional[ShardTablesOptions] = None
    smart_stage: Optional[SmartStageOptions] = None
    micro_batches: Optional[MicroBatchOptions] = None
    pack_dense_max_bytes: int = DEFAULT_PACK_DENSE_MAX_BYTES
    pipeline_dense: Optional[PipelineOptions] = None
    shadow: Optional[ShadowOptions] = None
    stall_seconds: int = 0
    warnings: Tuple[str, ...] = ()
    servers_with_ops: FrozenSet[str] = frozenset()
    fetched: FrozenSet[str] = frozenset()
    ranks: Optional[Ranks] = None
    served: Tuple[FrozenSet[str], ...] = ()
    evaluates: bool = False

    @property
    def requests(self) -> Tuple[Any, ...]:
        """What each optimization is asked to do, in the order of `SWITCHES`; None if it is off."""
        return (
            self.async_embedding,
            self.group_embedding,
            self.shard_tables,
            self.smart_stage,
            self.micro_batches,
            self.pipeline_dense,
        )

    @property
    def ask_for_anything(self) -> bool:
        """Whether any optimization is asked for."""
        return any(request is not None for request in self.requests)

    def asking_for_nothing(self) -> SessionOptions:
        """These options with all optimizations off."""
        return replace(
            self,
            async_embedding=None,
            group_embedding=None,
            shard_tables=None,
            smart_stage=None,
            micro_batches=None,
            pipeline_dense=None,
        )


def session_options(config: Optional[SessionConfig], target: str = "") -> SessionOptions:
    """Reads and validates the options of a session.

    Args:
      config: None, a stock `tf.ConfigProto` or a `graph_opt.ConfigProto`.
      target: The session's target. A session on a server cannot have stage pools, so they are
        left out there, with a warning; `intra_op_threads_num` stays.

    Returns:
      The options, with defaults for those that `config` does not set.

    Raises:
      tf.errors.InvalidArgumentError: An option is missing or out of its range. The message
        names the option and says what to set.

    Example:
      >>> session_options(config).async_embedding
      AsyncEmbeddingOptions(threads_num=1, capacity=2, thread_pool=-1, ...)
    """
    extended = extend(config)
    optimizer = extended.graph_options.optimizer_options
    pools = _thread_pools(extended)
    asynchronous: Optional[AsyncEmbeddingOptions] = None
    if optimizer.do_async_embedding:
        asynchronous = _async_embedding(optimizer.async_embedding_options, pools)
        check_exact(optimizer)
    grouped: Optional[GroupEmbeddingOptions] = None
    if optimizer.do_group_embedding:
        grouped = _group_embedding(optimizer.group_embedding_options)
    sharded: Optional[ShardTablesOptions] = None
    if optimizer.shard_tables:
        sharded = _shard_tables(optimizer.shard_tables_options)
    smart: Optional[SmartStageOptions] = None
    if optimizer.do_smart_stage or optimizer.do_smart_stage_gpu:
        smart = smart_stage(optimizer, len(pools))
    if optimizer.stall_seconds < 0:
        fail(_OPTIMIZER + ".stall_seconds", optimizer.stall_seconds, 0, None)
    warnings = option_warnings(optimizer, pools) + config_warnings(extended)
    if target:
        warnings.extend(server_warnings(extended))
        pools = ()
        asynchronous = asynchronous and replace(asynchronous, thread_pool=NO_THREAD_POOL)
        smart = smart and replace(smart, thread_pool=NO_THREAD_POOL)
    else:
        warnings.extend(local_warnings(optimizer))
    return SessionOptions(
        async_embedding=asynchronous,
        thread_pools=pools,
        group_embedding=grouped,
        shard_tables=sharded,
        smart_stage=smart,
        micro_batches=micro_batches(optimizer),
        pack_dense_max_bytes=_pack_dense_max_bytes(optimizer),
        pipeline_dense=pipeline_options(optimizer),
        shadow=shadow_options(optimizer),
        stall_seconds=optimizer.stall_seconds,
        warnings=tuple(warnings),
    )


def _thread_pools(config: ConfigProto) -> Tuple[ThreadPool, ...]:
    pools = []
    for index, pool in enumerate(config.session_stage_subgraph_thread_pool):
        for name in ("inter_op_threads_num", "intra_op_threads_num"):
            value = getattr(pool, name)
            if not 0 <= value <= MAX_THREADS:
                fail("{}[{}].{}".format(POOLS, index, name), value, 0, MAX_THREADS)
        pools.append(
            ThreadPool(pool.inter_op_threads_num, pool.intra_op_threads_num, pool.global_name)
        )
    return tuple(pools)


def _async_embedding(options: Any, pools: Sequence[ThreadPool]) -> AsyncEmbeddingOptions:
    require_set(options, "threads_num", "the number of prefetch threads, 1 to start with")
    require_set(options, "capacity", "the number of batches to hold ready, 2 to start with")
    check_size(ASYNC + ".threads_num", options.threads_num, MAX_THREADS)
    check_size(ASYNC + ".capacity", options.capacity, None)
    if options.timeout_millis < 0:
        fail(ASYNC + ".timeout_millis", options.timeout_millis, 0, None)
    priority = options.prefetch_priority
    if not MAINS_THREADS <= priority <= IDLE_PRIORITY:
        fail(ASYNC + ".prefetch_priority", priority, MAINS_THREADS, IDLE_PRIORITY)
    pool = pool_number(options, len(pools), ASYNC)
    return AsyncEmbeddingOptions(
        threads_num=options.threads_num,
        capacity=options.capacity,
        thread_pool=pool,
        intra_op_threads=pools[pool].intra_op_threads_num if pool >= 0 else 0,
        unordered=options.unordered,
        timeout_millis=options.timeout_millis,
        infer_io_stage=options.infer_io_stage,
        prefetch_priority=priority if options.HasField("prefetch_priority") else DEFAULT_PRIORITY,
        tuning_bytes=tuning_bytes(options),
        exact=options.exact,
        staleness=staleness_options(options),
    )


def _group_embedding(options: Any) -> GroupEmbeddingOptions:
    if options.minimum_lookups < 0:
        fail(_GROUP + ".minimum_lookups", options.minimum_lookups, 1, None)
    for pattern in options.lookups:
        check_pattern(_GROUP + ".lookups", pattern)
    return GroupEmbeddingOptions(
        minimum_lookups=max(options.minimum_lookups, 1),
        lookups=tuple(options.lookups),
        fuse_update=options.fuse_update or not options.HasField("fuse_update"),
        adam=_adam(options),
        require_server_ops=options.require_server_ops,
        fuse_inference=options.fuse_inference if options.HasField("fuse_inference") else None,
    )


def _shard_tables(options: Any) -> ShardTablesOptions:
    for name in ("min_table_bytes", "memory_budget_bytes"):
        value = getattr(options, name)
        if value < 0:
            fail("{}.{}".format(_SHARD, name), value, 0, None)
    least, budget = options.min_table_bytes, options.memory_budget_bytes
    if not options.HasField("min_table_bytes"):
        # A budget is what decides where it is all that was given.
        least = 0 if budget else DEFAULT_MIN_TABLE_BYTES
    return ShardTablesOptions(
        min_table_bytes=least,
        memory_budget_bytes=budget,
        tables=tuple(name.partition(":")[0] for name in options.tables),
    )


def _pack_dense_max_bytes(optimizer: Any) -> int:
    """The most bytes of a tensor that travels with others; 0 if each travels alone."""
    most = optimizer.pack_dense_max_bytes
    if not optimizer.HasField("pack_dense_max_bytes"):
        most = DEFAULT_PACK_DENSE_MAX_BYTES
    elif most < 1:
        fail(_OPTIMIZER + ".pack_dense_max_bytes", most, 1, None)
    return most if optimizer.pack_dense or not optimizer.HasField("pack_dense") else 0


def _adam(options: Any) -> str:
    """The option `adam`, or what the older `lazy_adam` says."""
    if not options.HasField("adam"):
        return LAZY_ADAM if options.lazy_adam else GroupEmbeddingOptions.adam
    adam = str(options.adam)
    check_choice(_GROUP + ".adam", adam, ADAMS)
    if options.HasField("lazy_adam") and options.lazy_adam != (adam == LAZY_ADAM):
        text = "{0}.adam is '{1}', but {0}.lazy_adam is {2}: set only adam"
        raise invalid(text.format(_GROUP, adam, str(options.lazy_adam).lower()))
    return adam
