"""What the threads of a stage tell its kernels and ask its buffer, without a session's step."""

from __future__ import annotations

import ctypes
import enum
import functools
from contextlib import contextmanager
from typing import Any, Callable, Iterator

from graph_opt.ops import library


class ThreadKind(enum.IntEnum):
    """What a thread is to a stage.

    Puts and takes that must wait hold a thread that runs steps, and the step goes on in it;
    elsewhere it would go on in the thread that ended the wait. Kernels of ours that a yielding
    thread runs leave no work to the session's threads.
    """

    NONE = 0
    RUNS_STEPS = 1
    YIELDS = 2


def be_stage_thread(kind: ThreadKind) -> None:
    """Says what the calling thread is; only for steps whose kernels run in the thread that calls.

    Example:
      >>> be_stage_thread(ThreadKind.RUNS_STEPS)
    """
    _functions().graph_opt_be_stage_thread(int(kind))


class BufferWatch:
    """The buffers that were resumed in one thread; made by `watching`."""

    def __init__(self, native: Any) -> None:
        self._functions = _functions()
        self._native = native

    def readiness(self, shared_name: str) -> Callable[[], bool]:
        """A function that says whether a take of the buffer would find an element at once.

        A call costs a microsecond. Of a buffer that is not watched, being in another process, the
        answer is always no.

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
    """Watches the buffers that the calling thread resumes in this block.

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
    library.load_library()
    # PyDLL: none of them takes as long as giving up Python's lock and getting it back.
    functions = ctypes.PyDLL(library.LIBRARY_PATH)
    functions.graph_opt_be_stage_thread.argtypes = [ctypes.c_int32]
    functions.graph_opt_begin_watching.restype = ctypes.c_void_p
    functions.graph_opt_delete_watch.argtypes = [ctypes.c_void_p]
    functions.graph_opt_watched_buffer.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    functions.graph_opt_buffer_is_ready.argtypes = [ctypes.c_void_p, ctypes.c_int32]
    return functions
