"""Initial values whose variance goes by the number of inputs and outputs."""

from __future__ import annotations

import math
from typing import Any, Callable, Optional, Sequence

from graph_opt.compat import tf

# A normal distribution that is cut off at two standard deviations has a smaller variance.
_OF_TRUNCATED_NORMAL = 1.3


def xavier_initializer(
    uniform: bool = True, seed: Optional[int] = None, dtype: Any = tf.float32
) -> Callable[..., tf.Tensor]:
    """Glorot's: a variance of 2 / (inputs + outputs).

    Args:
      uniform: Whether values are uniform; else they are from a truncated normal distribution.
      seed: Seed of the random numbers.
      dtype: Dtype of the values.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: Optional[int] = None,
    dtype: Any = tf.float32,
) -> Callable[..., tf.Tensor]:
    """A variance of `factor` / n.

    Args:
      factor: See above.
      mode: What n is: `FAN_IN`, the inputs; `FAN_OUT`, the outputs; `FAN_AVG`, their mean.
      uniform: Whether values are uniform; else they are from a truncated normal distribution.
      seed: Seed of the random numbers.
      dtype: Dtype of the values.

    Raises:
      ValueError: `mode` is none of these.
      TypeError: `dtype` is no floating point.
    """
    if not tf.as_dtype(dtype).is_floating:
        raise TypeError("variance_scaling_initializer: dtype is {}; need a float".format(dtype))
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise ValueError(
            "variance_scaling_initializer: mode is {!r}; need FAN_IN, FAN_OUT or FAN_AVG".format(
                mode
            )
        )

    def initial_value(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> tf.Tensor:
        variance = factor / _size(tf.TensorShape(shape).as_list(), mode)
        if uniform:
            limit = math.sqrt(3.0 * variance)
            return tf.random_uniform(shape, -limit, limit, dtype, seed=seed)
        deviation = math.sqrt(_OF_TRUNCATED_NORMAL * variance)
        return tf.truncated_normal(shape, 0.0, deviation, dtype, seed=seed)

    return initial_value


def _size(shape: Sequence[int], mode: str) -> float:
    field = 1.0
    for size in shape[:-2]:
        field *= size
    inputs = float(shape[-2] if len(shape) > 1 else shape[-1]) * field if shape else 1.0
    outputs = float(shape[-1]) * field if shape else 1.0
    return {"FAN_IN": inputs, "FAN_OUT": outputs, "FAN_AVG": (inputs + outputs) / 2.0}[mode]
