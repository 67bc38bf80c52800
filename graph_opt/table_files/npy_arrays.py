"""Arrays of `.npy` files, whose headers may say anything."""

from __future__ import annotations

import tokenize

import numpy as np

# What numpy raises besides ValueError for a header that it cannot read, depending on its release.
_OF_HEADERS = (EOFError, SyntaxError, tokenize.TokenError, TypeError, OverflowError, RecursionError)


def npy_array(path: str, mapped: bool = False) -> np.ndarray:
    """The numbers of a file.

    Args:
      path: The file.
      mapped: Whether to leave them in the file until they are used.

    Raises:
      ValueError: It is no file of numbers.
      OSError: It cannot be read.
    """
    try:
        loaded = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, *_OF_HEADERS) as error:
        raise ValueError("{} is no .npy file of numbers: {}".format(path, error)) from error
    if not isinstance(loaded, np.ndarray):
        loaded.close()
        raise ValueError("{} is an archive of arrays, and no .npy file".format(path))
    return loaded
