"""Checks of options, and the errors that name one and say what to set."""

from __future__ import annotations

import re
from typing import Any, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.stage_spec import AUTO, DEFAULT_TUNING_BYTES, NO_THREAD_POOL

MAX_THREADS = 1024
POOLS = "session_stage_subgraph_thread_pool"
ASYNC = "graph_options.optimizer_options.async_embedding_options"


def require_set(options: Any, name: str, meaning: str) -> None:
    """Raises the error for an option of `do_async_embedding` that is missing."""
    if not options.HasField(name):
        raise invalid(
            "{0}.{1} is not set: do_async_embedding needs {2} (config.{0}.{1} = ...)".format(
                ASYNC, name, meaning
            )
        )


def check_size(option: str, value: int, high: Optional[int]) -> None:
    """Checks a number of threads or batches: at least 1, or `AUTO`.

    Raises:
      InvalidArgumentError: It is another number, or more than `high`.
    """
    if value != AUTO and (value < 1 or (high is not None and value > high)):
        bounds = "at least 1" if high is None else "1 to {}".format(high)
        raise invalid("{} is {}, must be {}, or -1 to have it tuned".format(option, value, bounds))


def check_exact(optimizer: Any) -> None:
    """Raises the error for an OptimizerOptions that asks for exact rows of lookups as they are."""
    if optimizer.async_embedding_options.exact and not optimizer.do_group_embedding:
        raise invalid(
            "{}.exact needs do_group_embedding, since only fused updates tell which rows they "
            "write: set graph_options.optimizer_options.do_group_embedding".format(ASYNC)
        )


def check_pattern(option: str, pattern: str) -> None:
    """Raises the error for a pattern of `option` that is not a regular expression."""
    try:
        re.compile(pattern)
    except re.error as error:
        raise invalid(
            "{} has '{}', which is not a regular expression ({}): write the name of a lookup or "
            "variable, or part of one, and escape special characters".format(option, pattern, error)
        ) from error


def check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Raises the error for an option that is none of its choices."""
    if value not in choices:
        *most, last = map(repr, choices)
        listed = "{} or {}".format(", ".join(most), last)
        raise invalid("{} is '{}', must be {}".format(option, value, listed))


def tuning_bytes(options: Any) -> int:
    """What the batches of a tuned stage may take, from an AsyncEmbeddingOptions.

    Raises:
      InvalidArgumentError: It is less than a megabyte.
    """
    if not options.HasField("autotune_memory_mb"):
        return DEFAULT_TUNING_BYTES
    if options.autotune_memory_mb < 1:
        fail(ASYNC + ".autotune_memory_mb", options.autotune_memory_mb, 1, None)
    return int(options.autotune_memory_mb) << 20


def pool_number(options: Any, num_pools: int, message: str) -> int:
    """The index of the stage pool that a message chooses, or `NO_THREAD_POOL`.

    Args:
      options: The message.
      num_pools: How many pools the session has.
      message: Path of the message, for errors.

    Raises:
      InvalidArgumentError: There is no such pool.
    """
    if not options.use_stage_subgraph_thread_pool:
        return NO_THREAD_POOL
    number = int(options.stage_subgraph_thread_pool_id)
    if num_pools == 0:
        raise invalid(
            "{}.use_stage_subgraph_thread_pool is true but the session has no such pool: "
            "add one with config.{}.add(inter_op_threads_num=4), or leave the option out".format(
                message, POOLS
            )
        )
    if not 0 <= number < num_pools:
        raise invalid(
            "{}.stage_subgraph_thread_pool_id is {}, but {} has {}: use 0{}, "
            "or add more pools".format(
                message,
                number,
                POOLS,
                "1 pool" if num_pools == 1 else "{} pools".format(num_pools),
                "" if num_pools == 1 else " to {}".format(num_pools - 1),
            )
        )
    return number


def fail(option: str, value: int, low: int, high: Optional[int]) -> None:
    """Raises the error for a value out of range; without `high`, there is no upper bound."""
    bounds = "at least {}".format(low) if high is None else "{} to {}".format(low, high)
    raise invalid("{} is {}, must be {}".format(option, value, bounds))


def invalid(message: str) -> Exception:
    """The error for a wrong option."""
    return tf.errors.InvalidArgumentError(None, None, message)
