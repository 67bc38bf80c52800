"""The options of DeepRec's SmartStage as validated values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Tuple

from graph_opt.compat import tf
from graph_opt.config.option_checks import (
    MAX_THREADS,
    check_size,
    fail,
    invalid,
    pool_number,
    tuning_bytes,
)
from graph_opt.ops.stage_spec import AUTO, DEFAULT_TUNING_BYTES, NO_THREAD_POOL

_SMART = "graph_options.optimizer_options.smart_stage_options"
_SCOPE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")


@dataclass(frozen=True)
class SmartStageOptions:
    """How what stands before the variables runs ahead.

    Attributes:
      threads_num: Threads that fill the buffer, 1 to 1024; -1: tuned.
      capacity: Batches that the buffer holds ready, at least 1; -1: tuned.
      thread_pool: Index into the session's stage pools; -1: none.
      timeout_millis: The longest that one step waits for a batch, in milliseconds; 0: no limit.
      closed_codes: TensorFlow error codes that mean the end of input.
      ignored_codes: Error codes that skip a batch.
      name: Name of the stage.
      on_cpu: All that runs ahead does so on the CPU.
      tuning_bytes: What batches may take where threads or capacity are tuned.
    """

    threads_num: int = 1
    capacity: int = 2
    thread_pool: int = NO_THREAD_POOL
    timeout_millis: int = 0
    closed_codes: Tuple[int, ...] = (tf.errors.OUT_OF_RANGE,)
    ignored_codes: Tuple[int, ...] = ()
    name: str = "smart_stage"
    on_cpu: bool = False
    tuning_bytes: int = DEFAULT_TUNING_BYTES


def smart_stage(optimizer: Any, num_pools: int) -> SmartStageOptions:
    """Reads and validates the options in an OptimizerOptions.

    Args:
      optimizer: The message.
      num_pools: How many stage pools the session has.

    Raises:
      InvalidArgumentError: An option is out of its range.
    """
    options = optimizer.smart_stage_options
    on_cpu = bool(optimizer.stage_subgraph_on_cpu)
    defaults = SmartStageOptions(on_cpu=on_cpu)
    if not optimizer.HasField("smart_stage_options"):
        return defaults
    for name, high in (("num_threads", MAX_THREADS), ("capacity", None)):
        if options.HasField(name):
            check_size("{}.{}".format(_SMART, name), getattr(options, name), high)
    if options.HasField("num_clients") and options.num_clients < 1:
        fail(_SMART + ".num_clients", options.num_clients, 1, None)
    if options.timeout_millis < 0:
        fail(_SMART + ".timeout_millis", options.timeout_millis, 0, None)
    if options.name and not _SCOPE.match(options.name):
        raise invalid(
            "{}.name is '{}', which is not the name of a node: use letters, digits, '_', '.' and "
            "'-'".format(_SMART, options.name)
        )
    capacity = options.capacity or defaults.capacity
    return SmartStageOptions(
        threads_num=options.num_threads or defaults.threads_num,
        capacity=capacity if capacity == AUTO else capacity * (options.num_clients or 1),
        thread_pool=pool_number(options, num_pools, _SMART),
        timeout_millis=options.timeout_millis,
        closed_codes=tuple(options.closed_exceptions) or defaults.closed_codes,
        ignored_codes=tuple(options.ignored_exceptions),
        name=options.name or defaults.name,
        on_cpu=on_cpu,
        tuning_bytes=tuning_bytes(optimizer.async_embedding_options),
    )
