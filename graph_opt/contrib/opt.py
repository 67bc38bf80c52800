"""`tf.contrib.opt`: optimizers of sparse models."""

from __future__ import annotations

from typing import Any

from graph_opt.compat.train_optimizers import AdamOfRows
from graph_opt.contrib.files import missing_from
from graph_opt.optimizers.adam_w import AdamWOptimizer
from graph_opt.optimizers.slices import update_slices

__all__ = ["AdamWOptimizer", "LazyAdamOptimizer"]


class LazyAdamOptimizer(AdamOfRows):
    """`tf.train.AdamOptimizer` whose sparse updates move only rows that have a gradient.

    Moments of other rows do not decay. Arguments and slots are those of `tf.train.AdamOptimizer`.

    Example:
      >>> train_op = tf.contrib.opt.LazyAdamOptimizer(0.001).minimize(loss, global_step=step)
    """

    def update_slices(self, gradients: Any, variable: Any, rows: Any) -> Any:
        """See `AdamOfRows`."""
        return update_slices(
            "Adam",
            variable,
            [self.get_slot(variable, name) for name in ("m", "v")],
            self.numbers(variable),
            rows,
            gradients,
            use_locking=self.locks_variables,
        )


__getattr__ = missing_from(
    __name__,
    {
        "AdaMaxOptimizer": "tf.keras.optimizers.legacy.Adamax",
        "LazyAdamGSOptimizer": "LazyAdamOptimizer",
        "MovingAverageOptimizer": "tf.train.ExponentialMovingAverage",
        "NadamOptimizer": "tf.keras.optimizers.legacy.Nadam",
        "WeightDecay*": "AdamWOptimizer",
        "extend_with_decoupled_weight_decay": "AdamWOptimizer",
        "*": "tf.train and tf.keras.optimizers",
    },
)
