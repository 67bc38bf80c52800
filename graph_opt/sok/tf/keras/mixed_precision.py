"""`LossScaleOptimizer`: gradients of float16 do not vanish if the loss is scaled up."""

from __future__ import annotations

from typing import Any, List, Sequence

from graph_opt.compat import tf
from graph_opt.sharding.divided_gradients import divided_by


class LossScaleOptimizer:
    """An optimizer, and the factor by which its loss is scaled. Other attributes are its own.

    Args:
      optimizer: The optimizer. It gets gradients that are unscaled already.
      scale: The factor.

    Raises:
      ValueError: The factor is not positive.

    Example:
      >>> optimizer = LossScaleOptimizer(sok.optimizers.Adam(0.001), 1024)
      >>> scaled = tape.gradient(optimizer.get_scaled_loss(loss), variables)
      >>> gradients = optimizer.get_unscaled_gradients(scaled)
      >>> optimizer.apply_gradients(zip(gradients, variables))
    """

    def __init__(self, optimizer: Any, scale: float) -> None:
        if isinstance(scale, str) or not float(scale) > 0:
            raise ValueError("scale is {!r}; need a positive number".format(scale))
        self._optimizer = optimizer
        self._scale = float(scale)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_optimizer"], name)

    @property
    def loss_scale(self) -> float:
        """The factor."""
        return self._scale

    def get_scaled_loss(self, loss: Any) -> Any:
        """The loss times the factor; of a function, a function."""
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        return loss * tf.cast(self._scale, loss.dtype)

    def get_unscaled_gradients(self, gradients: Sequence[Any]) -> List[Any]:
        """The gradients divided by the factor; None stays None."""
        return [divided_by(gradient, self._scale) for gradient in gradients]
