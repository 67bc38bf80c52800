"""Rows of tables in low precision, as served tables have them.

float16 and bfloat16 are rounded to nearest, ties to even. int8 is symmetric, with a scale for each
row: element x of a row whose largest magnitude is m is stored as x / scale, rounded to nearest,
ties to even, where scale = m / 127 in float32; it stands for that number times the scale. A stored
row is [scale as float32, little endian][width x int8], so that a lookup reads it in one go, as in
FBGEMM's fused row-wise quantization (Khudia et al., "FBGEMM: Enabling High-Performance
Low-Precision Deep Learning Inference", 2021), which has uint8 and a bias. Rows of zeros have the
scale 0, and so do those whose scale would be no normal float32: threads of TensorFlow read such
numbers as 0.
"""

from __future__ import annotations

from typing import Any, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.table_files.low_precision_names import SCALE_BYTES

_LARGEST = 127
_SCALE = np.dtype("<f4")


class NotFinite(ValueError):
    """A number that is not finite in a dtype.

    Args:
      number: The number.
      row: Of those that were given, which has it.
      dtype: The dtype.
    """

    def __init__(self, number: float, row: int, dtype: Any) -> None:
        text = "{} in row {} is not finite in {}"
        super().__init__(text.format(number, row, dtype.name))
        self.number = number
        self.row = row


def low_precision_shape(shape: Sequence[int], dtype: Any) -> Tuple[int, ...]:
    """The shape of a table as it is stored: of int8 [rows, 4 + width], whatever its rank was.

    Example:
      >>> low_precision_shape([1000, 16], tf.int8)
      (1000, 20)
    """
    rows = [int(size) for size in shape]
    if tf.as_dtype(dtype) != tf.int8:
        return tuple(rows)
    return rows[0], SCALE_BYTES + int(np.prod(rows[1:], dtype=np.int64))


def low_precision_rows(values: np.ndarray, dtype: Any) -> np.ndarray:
    """Some rows of a table of float32 as they are stored.

    Args:
      values: [n, ...].
      dtype: float16, bfloat16 or int8.

    Returns:
      The rows in this dtype, of int8 [n, 4 + width].

    Raises:
      NotFinite: A number is not, in this dtype.

    Example:
      >>> low_precision_rows(np.array([[0.5, -1.0]], np.float32), tf.int8).shape
      (1, 6)
    """
    to = tf.as_dtype(dtype)
    if to == tf.int8:
        flat = values.reshape(len(values), int(np.prod(values.shape[1:], dtype=np.int64)))
        return _scaled_bytes(flat.astype(np.float32, copy=False))
    with np.errstate(over="ignore"):
        stored = values.astype(to.as_numpy_dtype)
    _require_finite(values, stored.astype(np.float32), to)
    return stored


def float_rows(stored: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """What stored rows stand for, as float32.

    Args:
      stored: What `low_precision_rows` returned, or rows of float32.
      shape: [n, ...], as the table has it.
    """
    if stored.dtype != np.int8:
        return stored.astype(np.float32).reshape(shape)
    scales = np.ascontiguousarray(stored[:, :SCALE_BYTES]).view(_SCALE)
    return (stored[:, SCALE_BYTES:].astype(np.float32) * scales).reshape(shape)


def _scaled_bytes(values: np.ndarray) -> np.ndarray:
    _require_finite(values, values, tf.int8)
    scales = np.max(np.abs(values), axis=1, initial=0.0, keepdims=True) / np.float32(_LARGEST)
    scales[scales < np.finfo(np.float32).tiny] = 0.0
    numbers = np.rint(values / np.where(scales == 0.0, np.float32(1.0), scales))
    stored = np.empty([len(values), SCALE_BYTES + values.shape[1]], np.int8)
    stored[:, :SCALE_BYTES] = scales.astype(_SCALE).view(np.int8)
    stored[:, SCALE_BYTES:] = numbers * (scales != 0.0)
    return stored


def _require_finite(values: np.ndarray, stored: np.ndarray, dtype: Any) -> None:
    is_wrong = ~np.isfinite(stored)
    if is_wrong.any():
        place = tuple(int(axis[0]) for axis in np.nonzero(is_wrong))
        raise NotFinite(float(values[place]), place[0], dtype)
