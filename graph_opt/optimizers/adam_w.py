"""Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from graph_opt.compat.train_optimizers import DecayingAdam


class AdamWOptimizer(DecayingAdam):
    """DeepRec's AdamW: before each step of Adam, weights lose a part of themselves.

    Sparse updates shrink only the rows that have a gradient; moments are those of
    `tf.train.AdamOptimizer`. In dynamic tables only rows with a gradient move at all, and the decay
    is scaled by the learning rate, as it is in DeepRec's EmbeddingVariables.

    Args:
      weight_decay: The part that is lost: a number, tensor or function.
      learning_rate: As all others, see `tf.train.AdamOptimizer`.
      beta1: See there.
      beta2: See there.
      epsilon: See there.
      use_locking: See there.
      name: See there.

    Example:
      >>> optimizer = tf.train.AdamWOptimizer(1e-4, 0.001)
      >>> train_op = optimizer.minimize(loss, decay_var_list=kernels)
    """

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )
