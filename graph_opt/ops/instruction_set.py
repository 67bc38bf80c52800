"""Which instruction set the group ops compute with on this machine's CPU."""

from __future__ import annotations

import ctypes

from graph_opt.compat import tf
from graph_opt.ops import library

_DTYPES = (tf.float32, tf.float16, tf.bfloat16)


def instruction_set(width: int, dtype: tf.DType = tf.float32) -> str:
    """The instruction set that group lookups and updates use for rows of a table.

    It is the widest one that the CPU has, up to the one that the environment variable
    `GRAPH_OPT_INSTRUCTION_SET` names, and whose vectors such rows fill. Rows that leave a rest use
    AVX2, and those of 16-bit types the widest.

    Args:
      width: Columns of the table, at least 1.
      dtype: Its type: float32, float16 or bfloat16.

    Returns:
      "AVX-512", "AVX2" or "portable". Portable is SSE2 on x86-64.

    Raises:
      ValueError: The width is less than 1, or there are no tables of this dtype.
      ImportError: The compiled ops are missing, or were built for another TensorFlow.

    Example:
      >>> graph_opt.instruction_set(64)
      'AVX-512'
    """
    dtype = tf.as_dtype(dtype)
    if width < 1:
        raise ValueError("width is {}; a table has at least 1 column".format(width))
    if dtype not in _DTYPES:
        known = ", ".join(one.name for one in _DTYPES)
        raise ValueError("dtype is {}; need one of {}".format(dtype.name, known))
    library.register_ops()
    name = ctypes.CDLL(library.LIBRARY_PATH).graph_opt_instruction_set
    name.restype = ctypes.c_char_p
    return str(name(ctypes.c_int64(width), ctypes.c_int32(dtype.size)).decode())
