"""What ends an object is left to another thread where the calling one may hold any lock."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
from typing import Any, Callable, Dict, List, Set

_collecting: Dict[int, List[Any]] = {}  # Locks to release once a thread has collected.
_borrowing: Set[int] = set()


def outside_collection(finalize: Callable[[], Any]) -> None:
    """Calls what ends an object, if need be in another thread.

    The collector runs in the midst of whatever a thread is doing, which may hold any lock: to wait
    for one there may be to wait forever. The same is true of a thread that borrows an object.

    What is found in the same collection is ended before: a callable of a session, say, which
    TensorFlow releases by the session's handle.

    Args:
      finalize: May take locks and wait; raises nothing.
    """
    if sys.is_finalizing():  # Modules may have lost their functions by then.
        finalize()
        return
    here = threading.get_ident()
    if not (here in _collecting or here in _borrowing):
        finalize()
        return
    collected = _thread.allocate_lock()
    if here in _collecting:
        collected.acquire()
        _collecting[here].append(collected)

    def finalize_later() -> None:
        collected.acquire()
        finalize()

    thread = threading.Thread(target=finalize_later, name="graph_opt/collected", daemon=True)
    _thread.start_new_thread(thread.start, ())  # It takes locks, too.


def call_with_borrowed(reference: Callable[[], Any], use: Callable[[Any], Any]) -> None:
    """Calls a function with an object that the calling thread must not end.

    If all other references go meanwhile, another thread ends the object.

    Args:
      reference: A weak reference to the object.
      use: Called with the object, or with None if it is gone; keeps no reference to it.
    """
    here = threading.get_ident()
    is_outermost = here not in _borrowing
    _borrowing.add(here)
    try:
        use(reference())  # A local variable would keep it until after the block.
    finally:
        if is_outermost:
            _borrowing.discard(here)


def _note(phase: str, _: Dict[str, int]) -> None:
    here = threading.get_ident()
    if phase == "start":
        _collecting[here] = []
        return
    for collected in _collecting.pop(here, ()):
        collected.release()


gc.callbacks.append(_note)
