"""How much memory the group ops hold between calls, outside TensorFlow's allocator."""

from __future__ import annotations

import ctypes
from typing import Dict

from graph_opt.ops import library

_NAMES = ("held_bytes", "idle_bytes", "peak_bytes")


def scratch_memory() -> Dict[str, int]:
    """Returns the scratch memory of this process's group ops on CPUs.

    Gradients and updates sort a batch's ids in memory that they keep for later calls. Memory that
    none of the last 128 calls of group ops used is returned to the system; all of it is when the
    last session with such ops is closed.

    Returns:
      `held_bytes`, everything that is currently held; `idle_bytes`, the part of it that no running
      call uses; and `peak_bytes`, the most that was ever held.

    Raises:
      ImportError: The compiled ops are missing, or were built for another TensorFlow.

    Example:
      >>> graph_opt.scratch_memory()
      {'held_bytes': 1572864, 'idle_bytes': 1572864, 'peak_bytes': 41943040}
    """
    library.register_ops()
    values = [ctypes.c_int64() for _ in _NAMES]
    ctypes.CDLL(library.LIBRARY_PATH).graph_opt_scratch_memory(
        *(ctypes.byref(value) for value in values)
    )
    return {name: value.value for name, value in zip(_NAMES, values)}
