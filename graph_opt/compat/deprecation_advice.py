"""TensorFlow's advice to leave TensorFlow 1, which it logs for each function that is called."""

from __future__ import annotations

import contextlib
from typing import Iterator

from tensorflow.python.util import deprecation


def silence_deprecation() -> None:
    """Has TensorFlow log no such advice in this process from now on."""
    deprecation._PRINT_DEPRECATION_WARNINGS = False


@contextlib.contextmanager
def without_deprecation() -> Iterator[None]:
    """Has TensorFlow log no such advice in a block."""
    before = deprecation._PRINT_DEPRECATION_WARNINGS
    silence_deprecation()
    try:
        yield
    finally:
        deprecation._PRINT_DEPRECATION_WARNINGS = before
