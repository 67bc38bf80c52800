"""Reads what `sok_files` describes."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple

import numpy as np

from graph_opt.table_files.checksums import crc32
from graph_opt.table_files.sok_files import (
    DTYPES,
    HEADER,
    KEY,
    SLOT,
    VERSION,
    TableFile,
    TableFiles,
)
from graph_opt.table_files.tables import Array


def read_header(path: str) -> Tuple[int, str, str]:
    """Kind, slot and dtype of a file.

    Raises:
      ValueError: The file is too short for a header.
    """
    with open(path, "rb") as opened:
        data = opened.read(HEADER.size)
    if len(data) < HEADER.size:
        raise ValueError("{} is too short for a header".format(path))
    _, kind, slot, code = HEADER.unpack(data)
    dtype = DTYPES.get(code, "dtype number {}".format(code))
    return kind, slot.decode("utf-8", "replace").lstrip(" "), dtype


class TableReader:
    """Reads the files of a table.

    Args:
      folder: Where from.
      files: Which files; of the file of keys, any dtype of integers will do.

    Attributes:
      files: As given.
      num_rows: Number of rows.
      facts: What our own file says; None if there is none, as SparseOperationKit writes none.

    Raises:
      FileNotFoundError: A file is missing.
      ValueError: A file is not what it should be.
    """

    def __init__(self, folder: str, files: TableFiles) -> None:
        self._folder = folder
        self.files = files
        self.facts = read_facts(files.sidecar_path(folder))
        self._dtypes = [self._read_header(place) for place in range(len(files.files))]
        key_bytes = np.dtype(self._dtypes[0]).itemsize
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
        for first, count in self._blocks():
            yield self.read(0, first, count).reshape(-1).astype(np.int64)

    def blocks(self) -> Iterator[List[Array]]:
        """All keys as int64 [n] and, in the order of the files, rows [n, width], block by block.

        Raises:
          ValueError: A block is not what its checksum was made of.
        """
        with contextlib.ExitStack() as stack:
            places = range(len(self.files.files))
            opened = [stack.enter_context(self._opened(place)) for place in places]
            for block, (first, count) in enumerate(self._blocks()):
                read = [self._read(opened[place], place, first, count) for place in places]
                for place, rows in enumerate(read):
                    self._check(place, block, rows)
                yield [read[0].reshape(-1).astype(np.int64), *read[1:]]

    def read(self, place: int, first: int, count: int) -> Array:
        """Rows [first, first + count) of a file, [count, width]; keys are in their own dtype."""
        with self._opened(place) as opened:
            return self._read(opened, place, first, count)

    def _opened(self, place: int) -> BinaryIO:
        return open(self.files.path(self._folder, place), "rb")

    def _read(self, opened: BinaryIO, place: int, first: int, count: int) -> Array:
        opened.seek(HEADER.size + first * self._row_bytes[place])
        width = self.files.files[place].width
        numbers = np.fromfile(opened, self._dtypes[place], count * width)
        if len(numbers) != count * width:
            raise ValueError("{} became shorter while it was read".format(opened.name))
        return numbers.reshape(count, width)

    def _blocks(self) -> Iterator[Tuple[int, int]]:
        size = self.files.checked_rows if self.facts is None else self.facts["checked_rows"]
        for first in range(0, self.num_rows, size):
            yield first, min(size, self.num_rows - first)

    def _check(self, place: int, block: int, rows: Array) -> None:
        if self.facts is None:
            return
        sums = self.facts["crc32"].get(self.files.files[place].suffix, [])
        if block >= len(sums) or crc32(rows) != sums[block]:
            raise ValueError(
                "{} is damaged, or not of the same dump as {} (a dump that was interrupted leaves "
                "such files). If another program has written it since, delete the latter".format(
                    self.files.path(self._folder, place), self.files.sidecar_path(self._folder)
                )
            )

    def _read_header(self, place: int) -> str:
        """The dtype of a file, whose header says what it should."""
        path = self.files.path(self._folder, place)
        need = self.files.files[place]
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
        return "{} is missing: no table {!r} was dumped there".format(path, self.files.table)

    def _data_bytes(self, place: int) -> int:
        return os.path.getsize(self.files.path(self._folder, place)) - HEADER.size


def read_facts(path: str) -> Optional[Dict[str, Any]]:
    """What the file says; None if there is none, as SparseOperationKit writes none.

    Raises:
      ValueError: It is damaged, or of another version.
    """
    try:
        with open(path, encoding="utf-8") as opened:
            facts = json.load(opened)
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise ValueError("{} is damaged: {}".format(path, error)) from error
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise ValueError("{} is of another version of graph_opt".format(path))
    if not _are_whole(facts):
        raise ValueError("{} is damaged: it lacks or spoils what it says of rows".format(path))
    return facts


def _are_whole(facts: Dict[str, Any]) -> bool:
    """Whether our own file has what is read of it."""
    checked_rows, rows, sums = facts.get("checked_rows"), facts.get("rows"), facts.get("crc32")
    counters, width = facts.get("counters", {}), facts.get("width")
    return (
        isinstance(checked_rows, int)
        and checked_rows > 0
        and isinstance(rows, int)
        and isinstance(sums, dict)
        and all(isinstance(one, list) for one in sums.values())
        and isinstance(counters, dict)
        and all(isinstance(one, (int, float)) for one in counters.values())
        and (width is None or isinstance(width, int))
    )
