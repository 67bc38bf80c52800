"""Sessions that the library opens for itself, whose steps nobody watches."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

from tensorflow.python.client import session as session_module


class _Unwatched(threading.local):
    def __init__(self) -> None:
        self.depth = 0


_unwatched = _Unwatched()


@contextlib.contextmanager
def unwatched_sessions() -> Iterator[type]:
    """Yields TensorFlow's own `tf.Session`; sessions opened within are internal to the library."""
    _unwatched.depth += 1
    try:
        yield session_module.Session
    finally:
        _unwatched.depth -= 1


def is_watched(session: Any) -> bool:
    """Whether a session is a `BaseSession` opened by a script, or by TensorFlow on its behalf."""
    return isinstance(session, session_module.BaseSession) and not _unwatched.depth
