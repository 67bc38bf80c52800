"""Initial values of sharded tables: a row starts the same on however many ranks the table is.

TensorFlow's and Keras' initializers are recognized by their parameters, and their values are drawn
by `graph_opt.ops.initial_rows`: the same distributions, but other numbers than TensorFlow's.
"""

from __future__ import annotations

import hashlib
import inspect
import math
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.ops.initial_rows import NORMAL, TRUNCATED_NORMAL, UNIFORM, initial_rows

# The standard deviation of a standard normal distribution that is cut at two.
_DEVIATION_OF_TRUNCATED = 0.87962566103423978


class Drawn(NamedTuple):
    """A distribution to draw from.

    Attributes:
      distribution: `uniform`, `normal` or `truncated_normal`.
      first: Lower bound, or mean.
      second: Upper bound, or standard deviation.
      seed: The initializer's own; None if it has none.
    """

    distribution: str
    first: float
    second: float
    seed: Optional[int] = None


class Constant(NamedTuple):
    """One value for all elements."""

    value: float


def values_of(initializer: Any, shape: Tuple[int, int]) -> Any:
    """What an initializer fills a table with.

    Args:
      initializer: An initializer of TensorFlow or Keras, or its class or name; a number; None for
        TensorFlow's default (Glorot's uniform).
      shape: Shape of the whole table.

    Returns:
      A `Drawn` or `Constant`; None for any other callable.

    Raises:
      TypeError: It is none of these.

    Example:
      >>> values_of(tf.random_uniform_initializer(-0.1, 0.1), (100, 16))
      Drawn(distribution='uniform', first=-0.1, second=0.1, seed=None)
    """
    if isinstance(initializer, (int, float, np.number)) and not isinstance(initializer, bool):
        return Constant(float(initializer))
    if initializer is None:
        initializer = tf.glorot_uniform_initializer()
    if isinstance(initializer, str):
        initializer = tf.keras.initializers.get(initializer)
    if inspect.isclass(initializer):
        initializer = initializer()
    if not callable(initializer):
        raise TypeError(
            "initializer is a {}; need an initializer of TensorFlow or Keras, its name, a number, "
            "or a function of shape and dtype".format(type(initializer).__name__)
        )
    try:
        return _known(initializer, shape)
    except (TypeError, ValueError):  # a parameter that is no number, such as a tensor
        return None


def stream_key(name: str, seed: Optional[int]) -> int:
    """The key of a table's random numbers: equal on all ranks that use equal names and seeds.

    Args:
      name: Name of the table.
      seed: Of the initializer; None for none. `tf.set_random_seed` counts as well.
    """
    graph_seed = tf.get_seed(0)[0]
    text = "{}:{}:{}".format(graph_seed, "" if seed is None else int(seed), name)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big", signed=True)


def initial_values(
    values: Any, keys: tf.Tensor, width: int, dtype: Any, name: str, column: int = 0
) -> tf.Tensor:
    """Rows of a table as they start.

    Args:
      values: From `values_of`, not None.
      keys: int64 [n]. The rows of the whole table.
      width: Number of columns.
      dtype: Of the table.
      name: Name of the table; tables with different names get different values.
      column: The first column.

    Returns:
      [n, width].
    """
    if isinstance(values, Constant):
        return tf.fill([tf.size(keys), width], tf.constant(values.value, dtype))
    rows = initial_rows(
        keys,
        width,
        values.distribution,
        values.first,
        values.second,
        stream_key(name, values.seed),
        column,
    )
    return tf.cast(rows, dtype)


def _known(initializer: Any, shape: Tuple[int, int]) -> Any:
    kind = type(initializer).__name__.lower()
    seed = getattr(initializer, "seed", None)
    if kind in ("zeros", "ones"):
        return Constant(float(kind == "ones"))
    if kind == "constant":
        return Constant(float(initializer.value))
    if kind == "randomuniform":
        upper = 1.0 if initializer.maxval is None else float(initializer.maxval)
        return Drawn(UNIFORM, float(initializer.minval), upper, seed)
    if kind in ("randomnormal", "truncatednormal"):
        distribution = NORMAL if kind == "randomnormal" else TRUNCATED_NORMAL
        return Drawn(distribution, float(initializer.mean), float(initializer.stddev), seed)
    if all(hasattr(initializer, name) for name in ("scale", "mode", "distribution")):
        return _scaled_by_shape(initializer, shape)._replace(seed=seed)
    return None


def _scaled_by_shape(initializer: Any, shape: Tuple[int, int]) -> Drawn:
    """`VarianceScaling` and what derives from it: Glorot, He, Lecun."""
    fans = {"fan_in": shape[0], "fan_out": shape[1], "fan_avg": sum(shape) / 2.0}
    variance = float(initializer.scale) / max(1.0, fans[initializer.mode])
    if initializer.distribution == "uniform":
        bound = math.sqrt(3.0 * variance)
        return Drawn(UNIFORM, -bound, bound)
    if initializer.distribution == "untruncated_normal":
        return Drawn(NORMAL, 0.0, math.sqrt(variance))
    return Drawn(TRUNCATED_NORMAL, 0.0, math.sqrt(variance) / _DEVIATION_OF_TRUNCATED)
