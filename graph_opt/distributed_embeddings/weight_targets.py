"""Where whole tables are put together, a block at a time: in memory, or in .npy files."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Optional

import numpy as np

from graph_opt.distributed_embeddings.placed_tables import PlacedTable
from graph_opt.table_files.checkpoint_slices import SliceWriter, TensorSlice

_UNFINISHED = ".unfinished"


class WeightTarget(SliceWriter):
    """One table.

    A file is mapped into memory for each block anew, so that what was written does not count as
    memory of this process any longer; it takes its name when it is whole.

    Args:
      table: The table.
      path: None, or the .npy file.

    Raises:
      OSError: The file cannot be made.
    """

    def __init__(self, table: PlacedTable, path: Optional[Any] = None) -> None:
        dtype = np.dtype(table.dtype.as_numpy_dtype)
        self._path = None if path is None else os.fspath(path)
        self._array = np.empty(table.shape if path is None else [0], dtype)
        if self._path is not None:
            stored = np.dtype(np.float32) if dtype.kind == "V" else dtype  # bfloat16
            unfinished = self._path + _UNFINISHED
            np.lib.format.open_memmap(unfinished, "w+", stored, tuple(table.shape))

    def write(self, *slices: TensorSlice) -> None:
        """See `SliceWriter`."""
        array: Any = self._array
        if self._path is not None:
            array = np.load(self._path + _UNFINISHED, mmap_mode="r+")
        for one in slices:
            array[one.first : one.first + len(one.values)] = one.values

    def finish(self) -> np.ndarray:
        """The whole table; that of a file is mapped into memory."""
        if self._path is None:
            return self._array
        with open(self._path + _UNFINISHED, "rb") as written:
            os.fsync(written.fileno())
        os.replace(self._path + _UNFINISHED, self._path)
        return np.asarray(np.load(self._path, mmap_mode="r"))

    def discard(self) -> None:
        """Leaves no unfinished file."""
        if self._path is not None:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._path + _UNFINISHED)
