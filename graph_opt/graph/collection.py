"""Pauses Python's cyclic garbage collector while a large graph is indexed."""

from __future__ import annotations

import contextlib
import gc
from typing import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """Disables cyclic garbage collection inside the block.

    The index of a large graph consists of a million small objects, all of which stay alive; the
    collector would visit each of them again and again (half the time of a pass over 100,000 nodes)
    and free none.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
