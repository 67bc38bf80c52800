"""Whole tables as arrays or .npy files, read and written a block at a time."""

from __future__ import annotations

import contextlib
import os
from typing import Any, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.distributed_embeddings.placed_tables import PlacedTable
from graph_opt.table_files.checkpoint_slices import SliceWriter, TensorSlice
from graph_opt.table_files.npy_arrays import npy_array

_UNFINISHED = ".unfinished"


class WeightSource:
    """One table's weights.

    Files are mapped into memory for each block anew, so that what was read does not count as memory
    of this process any longer.

    Args:
      weight: An array, or what becomes one, or the path of a .npy file.
      table: The table that they are for.

    Raises:
      ValueError: The shape or dtype is not the table's, or the file is no .npy file.
      OSError: The file cannot be read.
    """

    def __init__(self, weight: Any, table: PlacedTable) -> None:
        self._path = os.fspath(weight) if isinstance(weight, (str, os.PathLike)) else None
        self._array = None if self._path is not None else np.asarray(weight)
        array = self._opened()
        dtype = np.dtype(table.dtype.as_numpy_dtype)
        if array.shape != tuple(table.shape):
            raise ValueError(
                "{} has shape {}; table {!r} needs {}".format(
                    self._what(), list(array.shape), table.name, list(table.shape)
                )
            )
        if array.dtype.kind not in "fiub" and array.dtype != dtype:
            raise ValueError(
                "{} has dtype {}; table {!r} needs {}".format(
                    self._what(), array.dtype, table.name, dtype
                )
            )

    def rows(self, _: str, first: int, count: int) -> np.ndarray:
        """Rows [first, first + count), left where they are until they are used."""
        return self._opened()[first : first + count]

    def _opened(self) -> np.ndarray:
        if self._array is not None:
            return self._array
        assert self._path is not None
        return npy_array(self._path, mapped=True)

    def _what(self) -> str:
        return "a weight" if self._path is None else "file {!r}".format(self._path)


def sources_of(weights: Sequence[Any], tables: Sequence[PlacedTable]) -> List[WeightSource]:
    """The sources of all tables.

    Raises:
      ValueError: There are more or fewer than tables, or one does not fit.
      OSError: A file cannot be read.
    """
    if isinstance(weights, (str, os.PathLike)) or tf.is_tensor(weights):
        raise ValueError("weights must be a list of arrays or paths, one for each table")
    given = list(weights)
    if len(given) != len(tables):
        raise ValueError(
            "got weights of {} tables; the layer has {}".format(len(given), len(tables))
        )
    return [WeightSource(weight, table) for weight, table in zip(given, tables)]


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
