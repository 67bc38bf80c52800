"""How the threads of a stage talk to its kernels and its buffer without a step of the session."""

from __future__ import annotations

import ctypes
import enum
import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from graph_opt.ops import library


class ThreadKind(enum.IntEnum):
    """The role of a thread in a stage.

    In a thread that runs steps, puts and takes block while they wait, so that the step continues
    in that thread; elsewhere it continues in the thread that ends the wait. In a yielding thread,
    our kernels leave no work to the session's threads.
    """

    NONE = 0
    RUNS_STEPS = 1
    YIELDS = 2


def be_stage_thread(kind: ThreadKind) -> None:
    """Sets the role of the calling thread; only for steps whose kernels run in that thread.

    Example:
      >>> be_stage_thread(ThreadKind.RUNS_STEPS)
    """
    _functions().graph_opt_be_stage_thread(int(kind))


class BufferWatch:
    """The buffers that were resumed in one thread; created by `watching`."""

    def __init__(self, native: Any) -> None:
        self._functions = _functions()
        self._native = native

    def readiness(self, shared_name: str) -> Callable[[], bool]:
        """A function that returns whether a take of the buffer would find an element at once.

        A call costs a microsecond. For a buffer that is not watched because it is in another
        process, the function always returns False.

        Args:
          shared_name: Name of the buffer.
        """
        number = self._functions.graph_opt_watched_buffer(self._native, shared_name.encode("utf-8"))
        return functools.partial(self._is_ready, number) if number >= 0 else _never

    def _is_ready(self, number: int) -> bool:
        return bool(self._functions.graph_opt_buffer_is_ready(self._native, number))

    def __del__(self) -> None:
        self._functions.graph_opt_delete_watch(self._native)


@contextmanager
def watching() -> Iterator[BufferWatch]:
    """Watches the buffers that the calling thread resumes inside the block.

    Example:
      >>> with watching() as watch:
      ...   resume()  # compiled to run in the thread that calls
      >>> watch.readiness("staged")()
      False
    """
    functions = _functions()
    watch = BufferWatch(functions.graph_opt_begin_watching())
    try:
        yield watch
    finally:
        functions.graph_opt_end_watching()


def _never() -> bool:
    return False


@functools.lru_cache(maxsize=None)
def _functions() -> Any:
    library.register_ops()
    # PyDLL: releasing and reacquiring Python's lock would take longer than any of these calls.
    functions = ctypes.PyDLL(library.LIBRARY_PATH)
    functions.graph_opt_be_stage_thread.argtypes = [ctypes.c_int32]
    functions.graph_opt_begin_watching.restype = ctypes.c_void_p
    functions.graph_opt_delete_watch.argtypes = [ctypes.c_void_p]
    functions.graph_opt_watched_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    functions.graph_opt_buffer_is_ready.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return functions
