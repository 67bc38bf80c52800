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

import json
import os
import string
import struct
import uuid
import zlib
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.table_files.sok_facts import VERSION, read_facts

KEY = 0
WEIGHT = 1
SLOT = 2
_HEADER = struct.Struct(">256si32si")
DTYPES: Dict[int, str] = {
    0: "int32",
    1: "int64",
    2: "uint32",
    3: "uint64",
    4: "float16",
    5: "float32",
    6: "float64",
}
HEADER_BYTES = _HEADER.size
_CHECKED_BYTES = 16 << 20
_PUNCTUATION = str.maketrans({mark: "_" for mark in string.punctuation})

Array = np.ndarray


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
        return _HEADER.pack(_padded(table, 256), self.kind, _padded(self.slot, 32), codes[0])


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


def read_header(path: str) -> Tuple[int, str, str]:
    """Kind, slot and dtype of a file.

    Raises:
      ValueError: The file is too short for a header.
    """
    with open(path, "rb") as opened:
        data = opened.read(_HEADER.size)
    if len(data) < _HEADER.size:
        raise ValueError("{} is too short for a header".format(path))
    _, kind, slot, code = _HEADER.unpack(data)
    dtype = DTYPES.get(code, "dtype number {}".format(code))
    return kind, slot.decode("utf-8", "replace").lstrip(" "), dtype


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
        self._sums = [_Checksums(one.row_bytes * files.checked_rows) for one in files.files]
        headers = [one.header(files.table) for one in files.files]
        try:
            for place, header in enumerate(headers):
                self._open.append(open(files.path(folder, place) + self._mark, "wb"))
                self._open[place].write(header)
        except OSError:
            self.discard()
            raise

    def append(self, data: Array) -> None:
        """Appends rows.

        Args:
          data: uint8. All keys, then all their weights, then the same of each slot.
        """
        rows = len(data) // self._files.row_bytes
        begin = 0
        for one, opened, sums in zip(self._files.files, self._open, self._sums):
            part = memoryview(data[begin : begin + rows * one.row_bytes])  # type: ignore[arg-type]
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
            crc32={one.suffix: sums.values() for one, sums in zip(files.files, self._sums)},
        )
        path = files.sidecar_path(self._folder)
        with open(path + self._mark, "w", encoding="utf-8") as opened:
            json.dump(written, opened, indent=1, sort_keys=True)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(path + self._mark, path)

    def discard(self) -> None:
        """Removes what was written under temporary names."""
        for opened in self._open:
            opened.close()
            try:
                os.remove(opened.name)
            except FileNotFoundError:
                pass


class TableReader:
    """Reads the files of a table.

    Args:
      folder: Where from.
      files: Which files; of the file of keys, any dtype of integers will do.

    Attributes:
      num_rows: Number of rows.
      facts: What our own file says; None if there is none, as SparseOperationKit writes none.

    Raises:
      FileNotFoundError: A file is missing.
      ValueError: A file is not what it should be.
    """

    def __init__(self, folder: str, files: TableFiles) -> None:
        self._folder = folder
        self._files = files
        self.facts = read_facts(files.sidecar_path(folder))
        headers = [self._read_header(place) for place in range(len(files.files))]
        self._key_dtype = headers[0]
        key_bytes = np.dtype(self._key_dtype).itemsize
        self.num_rows = self._data_bytes(0) // key_bytes
        if self.facts is not None and self.facts["rows"] != self.num_rows:
            raise ValueError(
                "{} has {} keys; {} says {}".format(
                    files.path(folder, 0),
                    self.num_rows,
                    files.sidecar_path(folder),
                    self.facts["rows"],
                )
            )
        self._row_bytes = [key_bytes] + [one.row_bytes for one in files.files[1:]]
        for place, row_bytes in enumerate(self._row_bytes):
            if self._data_bytes(place) != self.num_rows * row_bytes:
                raise ValueError(
                    "{} has {} bytes of data; need {} rows of {}, as {} has so many keys".format(
                        files.path(folder, place),
                        self._data_bytes(place),
                        self.num_rows,
                        row_bytes,
                        files.path(folder, 0),
                    )
                )

    def keys(self) -> Iterator[Array]:
        """All keys, a block of int64 at a time, without their rows."""
        with open(self._files.path(self._folder, 0), "rb") as opened:
            opened.seek(_HEADER.size)
            for rows in self._blocks():
                yield self._as_keys(_exactly(opened, rows * self._row_bytes[0]))

    def blocks(self) -> Iterator[List[Array]]:
        """All keys as int64 [n] and, in the order of the files, rows [n, width], block by block.

        Raises:
          ValueError: A block is not what its checksum was made of.
        """
        count = len(self._files.files)
        opened = [open(self._files.path(self._folder, place), "rb") for place in range(count)]
        try:
            for each in opened:
                each.seek(_HEADER.size)
            for block, rows in enumerate(self._blocks()):
                read = [_exactly(each, rows * size) for each, size in zip(opened, self._row_bytes)]
                for place, data in enumerate(read):
                    self._check(place, block, data)
                yield [self._as_keys(read[0])] + [
                    np.frombuffer(data, one.dtype).reshape(rows, one.width)
                    for one, data in zip(self._files.files[1:], read[1:])
                ]
        finally:
            for each in opened:
                each.close()

    def _blocks(self) -> Iterator[int]:
        size = self._files.checked_rows if self.facts is None else self.facts["checked_rows"]
        for first in range(0, self.num_rows, size):
            yield min(size, self.num_rows - first)

    def _as_keys(self, data: bytes) -> Array:
        return np.frombuffer(data, self._key_dtype).astype(np.int64)

    def _check(self, place: int, block: int, data: bytes) -> None:
        if self.facts is None:
            return
        sums = self.facts["crc32"].get(self._files.files[place].suffix, [])
        if block >= len(sums) or zlib.crc32(data) != sums[block]:
            raise ValueError(
                "{} is damaged, or not of the same dump as {} (a dump that was interrupted leaves "
                "such files). If another program has written it since, delete the latter".format(
                    self._files.path(self._folder, place), self._files.sidecar_path(self._folder)
                )
            )

    def _read_header(self, place: int) -> str:
        """The dtype of a file, whose header says what it should."""
        path = self._files.path(self._folder, place)
        need = self._files.files[place]
        try:
            found = read_header(path)
        except FileNotFoundError as error:
            raise FileNotFoundError(self._missing(path, need)) from error
        wanted = (need.kind, need.slot, need.dtype)
        dtype = found[2]
        if need.kind == KEY and "int" in dtype:
            wanted = (need.kind, need.slot, dtype)
        if found != wanted:
            raise ValueError(
                "{} has kind {}, slot {!r} and dtype {}; the table needs kind {}, slot {!r} and "
                "dtype {}".format(path, *(found + wanted))
            )
        return dtype

    def _missing(self, path: str, need: TableFile) -> str:
        if need.kind == SLOT:
            return "{} is missing: the table was dumped without this optimizer".format(path)
        return "{} is missing: no table {!r} was dumped there".format(path, self._files.table)

    def _data_bytes(self, place: int) -> int:
        return os.path.getsize(self._files.path(self._folder, place)) - _HEADER.size


class _Checksums:
    """CRC-32 of each block of a stream."""

    def __init__(self, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        self._sums: List[int] = []
        self._room = 0

    def add(self, data: memoryview) -> None:
        """Goes on with the stream."""
        begin = 0
        while begin < len(data):
            if not self._room:
                self._sums.append(0)
                self._room = self._block_bytes
            part = data[begin : begin + self._room]
            self._sums[-1] = zlib.crc32(part, self._sums[-1])
            self._room -= len(part)
            begin += len(part)

    def values(self) -> Sequence[int]:
        """The checksums so far."""
        return self._sums


def _padded(name: str, size: int) -> bytes:
    encoded = name.encode("utf-8")
    if len(encoded) > size:
        raise ValueError("the name {!r} is longer than the {} bytes of a header".format(name, size))
    return encoded.rjust(size)


def _exactly(opened: BinaryIO, size: int) -> bytes:
    data = opened.read(size)
    if len(data) != size:
        raise ValueError("{} became shorter while it was read".format(opened.name))
    return data
