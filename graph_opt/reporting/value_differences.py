"""How far two values of a tensor are apart."""

from __future__ import annotations

from typing import Any

import numpy as np


def relative_difference(stock: np.ndarray, other: np.ndarray, scale: float = 0.0) -> float:
    """The largest difference of two arrays, as a part of the largest number that there was.

    Args:
      stock: What the other one should be.
      other: An array of the same dtype.
      scale: The largest number that the tensor had before.

    Returns:
      0 for equal arrays, with nan in the same places; inf if the shapes differ, or only one of two
      numbers is finite, or all that there was is 0.

    Example:
      >>> relative_difference(np.array([1.0, 4.0]), np.array([1.0, 5.0]))
      0.25
    """
    if stock.shape != other.shape:
        return np.inf
    kind = np.complex128 if stock.dtype.kind == "c" else np.float64
    left, right = stock.astype(kind), other.astype(kind)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = float(np.where(same, 0.0, np.abs(left - right)).max(initial=0.0))
    if not apart:
        return 0.0
    size = max(scale, size_of(stock))
    return apart / size if np.isfinite(apart) and size else np.inf


def size_of(value: Any) -> float:
    """The largest finite number of a value; 0 if it has none."""
    array = np.asarray(value)
    numbers = np.abs(array if array.dtype.kind == "c" else array.astype(np.float64))
    return float(numbers[np.isfinite(numbers)].max(initial=0.0))
