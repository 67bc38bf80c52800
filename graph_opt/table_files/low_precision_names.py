"""What tables of low precision are called, without TensorFlow, for commands that only parse."""

from __future__ import annotations

LOW_PRECISION = ("float16", "bfloat16", "int8")
"""The dtypes, by name."""
SCALE_BYTES = 4
"""In front of each row of int8."""
