"""Datasets of different lengths on the ranks."""

from __future__ import annotations

from typing import Any

from graph_opt.sharding import input_end
from graph_opt.sharding.transport_in_use import transport_in_use


def end_together(dataset: Any, policy: str = input_end.DROP) -> Any:
    """Makes training end in the same step on all ranks, though one has fewer batches.

    The step for which ranks have no batch fails with `tf.errors.OutOfRangeError` on all of them:
    a monitored session or Estimator then ends, as it does at the end of any dataset, and eager code
    leaves its loop. No message is sent for it that a step would not send in any case. Without this
    call, sessions behave as with `drop`.

    Args:
      dataset: A batched `tf.data.Dataset`; call it where the model is built. Batches without rows
        are left out.
      policy: `drop`: the end of the shortest input is the end; batches that other ranks have left
        are not used. `empty`: ranks without input go on with batches of no rows until no rank has
        any, so that each batch is used. The model must bear such batches: take sums, or divide by
        at least one, since the mean of nothing is NaN.

    Returns:
      A dataset with elements of the same structure. It has no end of its own: each step must look
      up its ids with `lookup_sparse`, or another function here.

    Raises:
      ValueError: There is no such policy, or a component of the elements is no batch.
      RuntimeError: `init` has not been called.

    Example:
      >>> dataset = sok.end_together(dataset.batch(512), "empty")
    """
    return input_end.end_together(dataset, policy, transport_in_use())
