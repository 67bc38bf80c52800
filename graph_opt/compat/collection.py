"""Whether the calling thread is collecting garbage, and what is left to another thread then."""

from __future__ import annotations

import _thread
import gc
import sys
import threading
from typing import Any, Callable, Dict, Set

_collecting: Set[int] = set()


def outside_collection(finalize: Callable[[], Any]) -> None:
    """Calls what ends an object, in another thread if the calling one is collecting garbage.

    The collector runs in the midst of whatever a thread is doing, which may hold any lock: to wait
    for one there may be to wait for ever.

    Args:
      finalize: May take locks and wait; raises nothing.
    """
    if threading.get_ident() not in _collecting or sys.is_finalizing():
        finalize()
    else:
        thread = threading.Thread(target=finalize, name="graph_opt/collected", daemon=True)
        _thread.start_new_thread(thread.start, ())  # It takes locks, too.


def _note(phase: str, _: Dict[str, int]) -> None:
    if phase == "start":
        _collecting.add(threading.get_ident())
    else:
        _collecting.discard(threading.get_ident())


gc.callbacks.append(_note)
