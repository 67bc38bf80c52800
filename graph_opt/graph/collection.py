"""Python's cyclic garbage collector, paused while a large graph is indexed."""

from __future__ import annotations

import contextlib
import gc
from typing import Iterator


@contextlib.contextmanager
def collection_paused() -> Iterator[None]:
    """No cyclic collection inside the block.

    An index of a large graph is a million small objects that all live on; the collector looks at
    each of them again and again (half the time of a pass over 100,000 nodes) and frees nothing.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
