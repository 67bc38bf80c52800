"""Gradients divided by a number, whatever their form."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf


def divided_by(gradient: Any, divisor: Any) -> Any:
    """A gradient divided by a number.

    Args:
      gradient: A tensor or IndexedSlices; None stays None.
      divisor: A number or a scalar tensor.
    """
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = divided_by(gradient.values, divisor)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(divisor, gradient.dtype)
