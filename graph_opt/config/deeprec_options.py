"""DeepRec's names for values of its options, for scripts that set them."""

from __future__ import annotations

import enum
from typing import Any, Sequence

from graph_opt.compat import tf
from graph_opt.config.messages import SmartStageOptions
from graph_opt.ops.stage_spec import AUTO

_LEAST = {
    "capacity": 1,
    "num_threads": 1,
    "num_clients": 1,
    "timeout_millis": 1,
    "stage_subgraph_thread_pool_id": 0,
    "stage_subgraph_stream_id": 0,
}
_TUNABLE = ("capacity", "num_threads")


class ExecutorPolicy(enum.IntEnum):
    """How the ops of a step run: values of `ConfigProto.executor_policy`.

    Attributes:
      USE_NORMAL_EXECUTOR: As TensorFlow runs them.
      USE_INLINE_EXECUTOR: On the thread that calls `session.run`, if they are all on one device.
      USE_COST_MODEL_EXECUTOR: As TensorFlow runs them: it has no such order.
    """

    USE_NORMAL_EXECUTOR = 0
    USE_INLINE_EXECUTOR = 1
    USE_COST_MODEL_EXECUTOR = 2


def smart_stage_options(
    capacity: int = 1,
    num_threads: int = 1,
    num_clients: int = 1,
    timeout_millis: int = 300000,
    closed_exception_types: Sequence[Any] = (tf.errors.OutOfRangeError,),
    ignored_exception_types: Sequence[Any] = (),
    use_stage_subgraph_thread_pool: bool = False,
    stage_subgraph_thread_pool_id: int = 0,
    stage_subgraph_stream_id: int = 0,
    graph: Any = None,
    name: str = "",
) -> Any:
    """`tf.SmartStageOptions`: a message for `OptimizerOptions.smart_stage_options`.

    Args:
      capacity: Batches held ready; -1 to have it tuned.
      num_threads: Threads that fill the stage; -1 to have it tuned.
      num_clients: Clients that take from it.
      timeout_millis: The longest that a step waits, in milliseconds.
      closed_exception_types: Errors that end the input.
      ignored_exception_types: Errors for which a batch is skipped.
      use_stage_subgraph_thread_pool: Whether the stage runs on one of the session's stage pools.
      stage_subgraph_thread_pool_id: Which one.
      stage_subgraph_stream_id: Which of a GPU's streams it runs on.
      graph: The graph; messages do not carry it.
      name: Name of the stage.

    Raises:
      ValueError: A number is out of range.

    Example:
      >>> options = config.graph_options.optimizer_options
      >>> options.smart_stage_options.CopyFrom(tf.SmartStageOptions(capacity=4, num_threads=2))
    """
    values = {
        "capacity": capacity,
        "num_threads": num_threads,
        "num_clients": num_clients,
        "timeout_millis": timeout_millis,
        "stage_subgraph_thread_pool_id": stage_subgraph_thread_pool_id,
        "stage_subgraph_stream_id": stage_subgraph_stream_id,
    }
    for option, value in values.items():
        if value < _LEAST[option] and not (option in _TUNABLE and value == AUTO):
            also = ", or -1 to have it tuned" if option in _TUNABLE else ""
            raise ValueError(
                "SmartStageOptions: {} is {}; need at least {}{}".format(
                    option, value, _LEAST[option], also
                )
            )
    return SmartStageOptions(
        closed_exceptions=[_code(kind) for kind in closed_exception_types],
        ignored_exceptions=[_code(kind) for kind in ignored_exception_types],
        use_stage_subgraph_thread_pool=use_stage_subgraph_thread_pool,
        name=name or "",
        **values,
    )


def _code(kind: Any) -> int:
    """The number of TensorFlow's error code for an exception type."""
    return int(kind(None, None, "").error_code)
