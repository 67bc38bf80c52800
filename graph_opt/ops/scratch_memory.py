"""How much memory the group ops hold between calls, outside of TensorFlow's allocator."""

from __future__ import annotations

import ctypes
from typing import Dict

from graph_opt.ops import library

_NAMES = ("held_bytes", "idle_bytes", "peak_bytes")


def scratch_memory() -> Dict[str, int]:
    """Scratch memory of the group ops of this process, on CPUs.

    Gradients and updates sort a batch's ids in memory that they keep for their next calls. What
    none of the last 128 calls of group ops used goes back to the system, and all of it when the
    last session that has such ops is closed.

    Returns:
      `held_bytes`, all that is held now; `idle_bytes`, the part of it that no running call uses;
      and `peak_bytes`, the most ever held.

    Raises:
      ImportError: the compiled ops are missing, or were built for another TensorFlow.

    Example:
      >>> graph_opt.scratch_memory()
      {'held_bytes': 1572864, 'idle_bytes': 1572864, 'peak_bytes': 41943040}
    """
    library.load_library()
    values = [ctypes.c_int64() for _ in _NAMES]
    ctypes.CDLL(library.LIBRARY_PATH).graph_opt_scratch_memory(
        *(ctypes.byref(value) for value in values)
    )
    return {name: value.value for name, value in zip(_NAMES, values)}
