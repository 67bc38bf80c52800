"""What RunOptions the steps of a session run with."""

from __future__ import annotations

from typing import Any

from graph_opt.compat.callables import CALLER_THREAD
from graph_opt.config import extend
from graph_opt.config.deeprec_options import ExecutorPolicy
from graph_opt.config.messages import RunOptions, StockRunOptions
from graph_opt.config.option_checks import pool_number
from graph_opt.reporting.warnings_given import warn_once


class StepOptions:
    """Completes the RunOptions of steps by what DeepRec's options ask for.

    `use_stage_subgraph_thread_pool` runs a step on one of the session's stage pools;
    `executor_policy` may run all steps on the threads that call them.

    Args:
      config: The session's extended config; None for none.
      target: The session's target. Servers have pools of their own, and run no step on a thread
        that calls it.
    """

    def __init__(self, config: Any, target: str) -> None:
        extended = extend(config)
        policy = ExecutorPolicy.USE_NORMAL_EXECUTOR if target else extended.executor_policy
        self._on_server = bool(target)
        self._pools = len(extended.session_stage_subgraph_thread_pool)
        self._is_inline = policy == ExecutorPolicy.USE_INLINE_EXECUTOR
        self._inline = StockRunOptions(inter_op_thread_pool=CALLER_THREAD)

    def of(self, given: Any) -> Any:
        """The stock RunOptions of a step; None for TensorFlow's defaults.

        Args:
          given: RunOptions, a stock message or an extended one; None for none.

        Raises:
          tf.errors.InvalidArgumentError: The session has no such stage pool.
        """
        if given is None:
            return self._inline if self._is_inline else None
        options, pool = given, -1
        if isinstance(given, RunOptions):
            pool = self._stage_pool(given)
            options = StockRunOptions.FromString(_without_ours(given))
        if pool >= 0:
            options.inter_op_thread_pool = pool + 1  # after the main graph's
        elif self._is_inline and not options.inter_op_thread_pool:
            options = StockRunOptions.FromString(options.SerializeToString())
            options.inter_op_thread_pool = CALLER_THREAD
        return options

    def _stage_pool(self, given: Any) -> int:
        if not self._on_server:
            return pool_number(given, self._pools, "RunOptions")
        if given.use_stage_subgraph_thread_pool:
            warn_once(
                "RunOptions.use_stage_subgraph_thread_pool has no effect in a session on a server: "
                "TensorFlow runs ops on the worker's threads"
            )
        return -1


def _without_ours(given: Any) -> bytes:
    copy = RunOptions.FromString(given.SerializeToString())
    copy.ClearField("use_stage_subgraph_thread_pool")
    copy.ClearField("stage_subgraph_thread_pool_id")
    serialized: bytes = copy.SerializeToString()
    return serialized
