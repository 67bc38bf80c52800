"""The two files of a table: raw keys and raw rows, without headers."""

from __future__ import annotations

import os
from typing import Any, List, Optional, Tuple

import numpy as np

_ROW_DTYPE = np.dtype(np.float32)
_UNFINISHED = ".unfinished"


class RawFiles:
    """Files of keys (int64 or uint32) and of rows (float32), in native byte order.

    Args:
      folder: Where they are.
      name: Name of the table, with which theirs begin.
      width: Columns of a row.
    """

    DONE = np.int64(0)

    def __init__(self, folder: Any, name: str, width: int) -> None:
        self._folder = os.fspath(folder)
        base = os.path.join(self._folder, name.replace("/", "_"))
        self._paths = base + "_keys.file", base + "_values.file"
        self._row_bytes = width * _ROW_DTYPE.itemsize
        self._width = width

    def begin(self) -> Any:
        """Begins new files beside the old ones."""
        os.makedirs(self._folder, exist_ok=True)
        for path in self._paths:
            with open(path + _UNFINISHED, "wb"):
                pass
        return self.DONE

    def append(self, key_dtype: str, keys: np.ndarray, rows: np.ndarray) -> Any:
        """Adds rows to the new files.

        Raises:
          ValueError: A key is not one of `key_dtype`.
        """
        written = keys.astype(key_dtype)
        if not np.array_equal(written.astype(np.int64), keys):
            wrong = keys[written.astype(np.int64) != keys][0]
            raise ValueError("{}: key {} is not a {}".format(self._paths[0], wrong, key_dtype))
        for path, values in zip(self._paths, (written, rows.astype(_ROW_DTYPE))):
            with open(path + _UNFINISHED, "ab") as file:
                file.write(np.ascontiguousarray(values).tobytes())
        return self.DONE

    def finish(self) -> Any:
        """Lets the new files take the place of the old ones."""
        for path in self._paths:
            os.replace(path + _UNFINISHED, path)
        return self.DONE

    def num_rows(self) -> Any:
        """Rows in the files.

        Raises:
          ValueError: There are no such files, or their sizes do not fit together.
        """
        return np.int64(self._rows_and_key_dtype()[0])

    def read(
        self, rank: int, size: int, end: Optional[int], first: int, count: int
    ) -> Tuple[np.ndarray, np.ndarray]:
        """The keys of one rank and their rows, among `count` rows of the files.

        Args:
          rank: The rank.
          size: Number of ranks.
          end: What all keys must be below; None for any.
          first: The row to begin with.
          count: Most rows to read.

        Raises:
          ValueError: A key is out of range.
        """
        _, key_dtype = self._rows_and_key_dtype()
        begin = int(first)
        keys = np.fromfile(
            self._paths[0], key_dtype, int(count), offset=begin * key_dtype.itemsize
        ).astype(np.int64)
        wrong = keys[(keys < 0) | (keys >= end)] if end is not None else keys[:0]
        if len(wrong):
            raise ValueError(
                "{} has key {}, but the table has {} rows".format(self._paths[0], wrong[0], end)
            )
        values = np.memmap(self._paths[1], _ROW_DTYPE, "r", shape=None)
        rows = values.reshape(-1, self._width)[begin : begin + len(keys)]
        mine = keys % size == rank
        return keys[mine], np.ascontiguousarray(rows[mine])

    def _rows_and_key_dtype(self) -> Tuple[int, np.dtype]:
        key_bytes, value_bytes = self._sizes()
        rows, remainder = divmod(value_bytes, self._row_bytes)
        for dtype in (np.dtype(np.int64), np.dtype(np.uint32)):
            if not remainder and key_bytes == rows * dtype.itemsize:
                return rows, dtype
        raise ValueError(
            "{} has {} bytes and {} has {}, which are not the keys and rows of a table of width "
            "{}".format(self._paths[0], key_bytes, self._paths[1], value_bytes, self._width)
        )

    def _sizes(self) -> List[int]:
        for path in self._paths:
            if not os.path.isfile(path):
                raise ValueError("there is no file " + path)
        return [os.path.getsize(path) for path in self._paths]
