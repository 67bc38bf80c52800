"""The types of tables, as numpy holds them: bfloat16 is a uint16 of the same bits."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

Array = Any  # numpy comes without generic types on all supported versions

# In the order of GraphOptCudaType.
TYPES = ("float32", "float16", "bfloat16")
STORED: Dict[str, str] = {"float32": "float32", "float16": "float16", "bfloat16": "uint16"}
# The relative distance of neighbouring numbers.
STEP: Dict[str, float] = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def stored(values: Array, dtype: str) -> Array:
    """Numbers as a table of `dtype` has them: rounded to nearest, ties to even.

    Example:
        >>> stored(np.array([1.0]), "bfloat16")
        array([16256], dtype=uint16)
    """
    floats = np.ascontiguousarray(values, dtype=np.float32)
    if dtype != "bfloat16":
        return floats.astype(STORED[dtype])
    bits = floats.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def loaded(values: Array, dtype: str) -> Array:
    """The float64 numbers that `stored` ones stand for."""
    if dtype != "bfloat16":
        return values.astype(np.float64)
    return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
