"""The files of a table, in SparseOperationKit's format, and a file of ours that vouches for them.

A table `T` of n rows has the files `T-key`, `T-weight`, and `T-<optimizer>-<slot>` for each slot.
Each is a header of 296 bytes and n keys, or n rows in the order of the keys:

    bytes       what
    0 - 255     name of the table, UTF-8, spaces on its left
    256 - 259   kind of the file: 0 keys, 1 weights, 2 a slot; int32, big-endian
    260 - 291   name of the slot, spaces on its left
    292 - 295   dtype (`DTYPES`); int32, big-endian

`T-graph_opt.json` has what this format lacks: the width, checksums, and the optimizer's counters.
"""

from __future__ import annotations

import os
import string
import struct
import uuid
from typing import Any, BinaryIO, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.table_files.checksums import Checksums, bytes_of, write_json
from graph_opt.table_files.tables import Array, Column

KEY = 0
WEIGHT = 1
SLOT = 2
VERSION = 1
HEADER = struct.Struct(">256si32si")
DTYPES: Dict[int, str] = {
    0: "int32",
    1: "int64",
    2: "uint32",
    3: "uint64",
    4: "float16",
    5: "float32",
    6: "float64",
}
_CHECKED_BYTES = 16 << 20
_PUNCTUATION = str.maketrans({mark: "_" for mark in string.punctuation})


class TableFile(NamedTuple):
    """One file of a table.

    Attributes:
      suffix: What follows "T-" in its name.
      kind: `KEY`, `WEIGHT` or `SLOT`.
      slot: Name of the slot, or empty.
      dtype: Of its numbers, as numpy's name.
      width: Numbers in a row.
    """

    suffix: str
    kind: int
    slot: str
    dtype: str
    width: int

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.width * np.dtype(self.dtype).itemsize

    def header(self, table: str) -> bytes:
        """The header.

        Raises:
          ValueError: A name is too long for it.
        """
        codes = [code for code, name in DTYPES.items() if name == self.dtype]
        return HEADER.pack(_padded(table, 256), self.kind, _padded(self.slot, 32), codes[0])


class TableFiles(NamedTuple):
    """All files of a table.

    Attributes:
      table: T.
      files: The file of keys, that of weights, and those of slots.
    """

    table: str
    files: Tuple[TableFile, ...]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in all files, its key included."""
        return sum(one.row_bytes for one in self.files)

    @property
    def checked_rows(self) -> int:
        """Rows under one checksum."""
        return max(1, _CHECKED_BYTES // max(one.row_bytes for one in self.files))

    def path(self, folder: str, place: int) -> str:
        """Path of a file."""
        return os.path.join(folder, "{}-{}".format(self.table, self.files[place].suffix))

    def sidecar_path(self, folder: str) -> str:
        """Path of our own file."""
        return os.path.join(folder, self.table + "-graph_opt.json")


def file_name_of(variable: str) -> str:
    """What the files of a variable are named after.

    Example:
      >>> file_name_of("model/users:0")
      'model_users_0'
    """
    return variable.translate(_PUNCTUATION)


def stored_column(table: str, column: Column) -> Column:
    """A column in a dtype that the format has a number for, without loss.

    Raises:
      ValueError: It has none.
    """
    dtype = np.dtype(np.float32) if column.dtype.name == "bfloat16" else column.dtype
    if dtype.name not in DTYPES.values():
        raise ValueError(
            "{!r} has dtype {}; files of tables have one of {}".format(
                table, dtype.name, ", ".join(DTYPES.values())
            )
        )
    return column._replace(dtype=dtype)


def suffix_of(column: Column) -> str:
    """What follows "T-" in the name of a column's file."""
    return "{}-{}".format(column.optimizer, column.slot) if column.slot else "weight"


def files_of(table: str, columns: Sequence[Column], key_dtype: str = "int64") -> TableFiles:
    """The files of a table.

    Args:
      table: T.
      columns: Weights, then slots, as `stored_column` gives them.
      key_dtype: Of the keys.
    """
    files = [TableFile("key", KEY, "", key_dtype, 1)]
    for one in columns:
        kind = SLOT if one.slot else WEIGHT
        files.append(TableFile(suffix_of(one), kind, one.slot, one.dtype.name, one.width))
    return TableFiles(table, tuple(files))


class TableWriter:
    """Writes the files of a table under temporary names; `publish` gives them their own.

    Args:
      folder: Where to.
      files: Which files.

    Raises:
      ValueError: A name is too long for a header.
      OSError: The folder cannot be written to.
    """

    def __init__(self, folder: str, files: TableFiles) -> None:
        self._folder = folder
        self._files = files
        self._mark = ".{}.tmp".format(uuid.uuid4().hex[:12])
        self._rows = 0
        self._open: List[BinaryIO] = []
        self._sums = [Checksums(one.row_bytes * files.checked_rows) for one in files.files]
        headers = [one.header(files.table) for one in files.files]
        try:
            for place, header in enumerate(headers):
                self._open.append(open(files.path(folder, place) + self._mark, "wb"))
                self._open[place].write(header)
        except OSError:
            self.discard()
            raise

    def append(self, data: Array) -> None:
        """Appends rows, as `as_bytes` gives them."""
        rows = len(data) // self._files.row_bytes
        begin = 0
        for one, opened, sums in zip(self._files.files, self._open, self._sums):
            part = bytes_of(data[begin : begin + rows * one.row_bytes])
            opened.write(part)
            sums.add(part)
            begin += len(part)
        self._rows += rows

    def finish(self) -> None:
        """Brings all to the disk, still under temporary names."""
        for opened in self._open:
            opened.flush()
            os.fsync(opened.fileno())
            opened.close()

    def publish(self, facts: Dict[str, Any]) -> None:
        """Replaces the files of an earlier dump, and then what vouches for them.

        Until the last step a reader finds that files and checksums do not belong together.

        Args:
          facts: More for our own file.
        """
        files = self._files
        for place in range(len(files.files)):
            path = files.path(self._folder, place)
            os.replace(path + self._mark, path)
        written = dict(
            facts,
            version=VERSION,
            rows=self._rows,
            checked_rows=files.checked_rows,
            crc32={one.suffix: sums.values for one, sums in zip(files.files, self._sums)},
        )
        path = files.sidecar_path(self._folder)
        write_json(path + self._mark, written)
        os.replace(path + self._mark, path)

    def discard(self) -> None:
        """Removes what was written under temporary names."""
        for opened in self._open:
            opened.close()
            try:
                os.remove(opened.name)
            except FileNotFoundError:
                pass


def as_bytes(arrays: Sequence[Array]) -> Array:
    """Rows as uint8: all keys, then all their weights, then the same of each slot."""
    return np.concatenate([np.frombuffer(bytes_of(one), np.uint8) for one in arrays])


def _padded(name: str, size: int) -> bytes:
    encoded = name.encode("utf-8")
    if len(encoded) > size:
        raise ValueError("the name {!r} is longer than the {} bytes of a header".format(name, size))
    return encoded.rjust(size)
