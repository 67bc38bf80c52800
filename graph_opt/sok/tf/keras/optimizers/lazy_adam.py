"""`LazyAdamOptimizer`, as `tf.contrib.opt` had it."""

from __future__ import annotations

from typing import Any

from graph_opt.compat.sparse_adam import SlicesUpdate, TrainSparseAdam
from graph_opt.sok.optimizers.row_adam import adam_on_rows


class LazyAdamOptimizer(TrainSparseAdam):
    """`tf.train.AdamOptimizer`, except that rows without a gradient stay as they are.

    Example:
      >>> train = LazyAdamOptimizer(learning_rate=0.001).minimize(loss)
    """

    def update_slices(self, update: SlicesUpdate) -> Any:
        """See `TrainSparseAdam`."""
        return adam_on_rows(update)
