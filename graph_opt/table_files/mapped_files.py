"""Tables as servers map them into memory: a page that tells what the file has, then the rows.

    0     magic, version, kind (0: all rows, 1: some), dtype as TensorFlow's number, rank
    24    8 sizes of dimensions, unused ones 0
    88    where the data begins, its bytes, how many rows there are
    112   16 random bytes, which other contents have others of
    128   CRC-32C of the data; bytes of the name; the name of the variable
    4092  CRC-32C of all before
    4096  all rows; or the numbers of some, up to a multiple of 64 bytes, and these rows

Numbers are little-endian. `ops_src/kernels/served/table_file.cc` reads the same.
"""

from __future__ import annotations

import functools
import operator
import os
import struct
import uuid
from typing import Any, BinaryIO, Iterable, NamedTuple, Tuple

import google_crc32c
import numpy as np

from graph_opt.compat import tf
from graph_opt.table_files.checksums import bytes_of
from graph_opt.table_files.low_precision import low_precision_rows, low_precision_shape
from graph_opt.table_files.low_precision_names import LOW_PRECISION
from graph_opt.table_files.row_blocks import blocks_of

Array = np.ndarray

_MAGIC = b"GOTABLE\n"
_VERSION = 1
_ALL, _SOME = 0, 1
_FIELDS = struct.Struct("<8sIIII8qqqq16sII")
_PAGE = 4096
_CHECKSUM = struct.Struct("<I")
_MOST_DIMENSIONS = 8
_ALIGNMENT = 64
_LONGEST_NAME = _PAGE - _FIELDS.size - _CHECKSUM.size


class TableHead(NamedTuple):
    """What a file tells of its table.

    Attributes:
      name: Of its variable.
      dtype: TensorFlow's dtype.
      shape: Of the whole table.
    """

    name: str
    dtype: Any
    shape: Tuple[int, ...]

    @property
    def num_rows(self) -> int:
        """Rows of the table; a number alone is one."""
        return self.shape[0] if self.shape else 1

    @property
    def row_shape(self) -> Tuple[int, ...]:
        """Shape of a row."""
        return self.shape[1:]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return functools.reduce(operator.mul, self.row_shape, int(self.dtype.size))


class MappedTable:
    """A file that is read where it is.

    Args:
      path: The file.

    Attributes:
      path: The same.
      head: What it tells of the table.
      has_all_rows: Whether it has the whole table; else `numbers` says which rows it has.

    Raises:
      FileNotFoundError: There is no such file.
      ValueError: It is damaged.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        page = _first_page(path)
        fields = _FIELDS.unpack_from(page)
        magic, version, kind, dtype, rank = fields[:5]
        offset, data_bytes, self._count, _, self._crc32c, name_bytes = fields[13:]
        if magic != _MAGIC or _CHECKSUM.unpack(page[-4:])[0] != google_crc32c.value(page[:-4]):
            raise ValueError("{} is no table file, or its first page is damaged".format(path))
        if version != _VERSION:
            raise ValueError("{} has version {} of the format".format(path, version))
        if rank > _MOST_DIMENSIONS:
            raise ValueError("{} is damaged: it has {} dimensions".format(path, rank))
        name = page[_FIELDS.size : _FIELDS.size + name_bytes].decode("utf-8", "replace")
        self.has_all_rows = kind == _ALL
        self.head = TableHead(name, _dtype(path, dtype), tuple(fields[5 : 5 + rank]))
        needed = _data_bytes(self.head, kind, self._count)
        if min(self.head.shape, default=0) < 0 or (offset, data_bytes) != (_PAGE, needed):
            raise ValueError("{} is damaged: {!r} cannot be so large".format(path, name))
        if os.path.getsize(path) != _PAGE + data_bytes:
            raise ValueError("{} does not end where the rows of {!r} do".format(path, name))
        self._data = np.memmap(path, np.uint8, "r", _PAGE, data_bytes) if data_bytes else b""

    def rows(self, first: int, count: int) -> Array:
        """Rows [first, first + count) of those that the file has."""
        size = self.head.row_bytes
        begin = (0 if self.has_all_rows else _number_bytes(self._count)) + first * size
        rows = np.frombuffer(self._data, np.uint8)[begin : begin + count * size]
        return rows.view(self.head.dtype.as_numpy_dtype).reshape(count, *self.head.row_shape)

    @property
    def numbers(self) -> Array:
        """Numbers of the rows that a file with some of them has, ascending."""
        return np.frombuffer(self._data, np.int64, self._count)

    def check(self) -> None:
        """Compares the data with its checksum.

        Raises:
          ValueError: It is damaged.
        """
        checksum = 0
        for first, count in blocks_of(len(self._data), 1):
            checksum = google_crc32c.extend(checksum, bytes(self._data[first : first + count]))
        if checksum != self._crc32c:
            raise ValueError(
                "{} is damaged: the rows of {!r} are not those of its checksum".format(
                    self.path, self.head.name
                )
            )


def write_mapped_table(path: str, head: TableHead, blocks: Iterable[Array]) -> None:
    """Writes all rows of a table.

    Args:
      path: A file that there is not yet.
      head: What table.
      blocks: Its rows, in order, of its dtype.

    Example:
      >>> head = TableHead("user", tf.float32, (1000, 16))
      >>> write_mapped_table("user.table", head, [rows])
    """
    _write(path, head, _ALL, head.num_rows, (bytes_of(block) for block in blocks))


def write_mapped_rows(path: str, head: TableHead, numbers: Array, blocks: Iterable[Array]) -> None:
    """Writes some rows of a table.

    Args:
      path: A file that there is not yet.
      head: What table.
      numbers: Which rows, int64, ascending.
      blocks: The rows, in this order, of its dtype.
    """
    padded = np.zeros([_number_bytes(len(numbers)) // 8], np.int64)
    padded[: len(numbers)] = numbers
    parts = (bytes_of(part) for some in ([padded], blocks) for part in some)
    _write(path, head, _SOME, len(numbers), parts)


def stored_shape(shape: Tuple[int, ...], of: Any, dtype: Any) -> Tuple[int, ...]:
    """Shape of a variable of one dtype as a file of another has it."""
    return low_precision_shape(shape, dtype) if is_lowered(of, dtype) else tuple(shape)


def stored_rows(rows: Array, dtype: Any) -> Array:
    """Rows of a variable as a file of this dtype has them.

    Raises:
      NotFinite: A number is not, in this dtype.
    """
    if is_lowered(tf.as_dtype(rows.dtype), dtype):
        return low_precision_rows(rows, dtype)
    return np.ascontiguousarray(rows, dtype.as_numpy_dtype)


def is_lowered(of: Any, dtype: Any) -> bool:
    """Whether a variable of one dtype is in low precision in a file of another."""
    return bool(of == tf.float32 and dtype.name in LOW_PRECISION)


def _write(path: str, head: TableHead, kind: int, count: int, parts: Iterable[memoryview]) -> None:
    with open(path, "xb") as file:
        file.write(bytes(_PAGE))
        size, checksum = 0, 0
        for part in parts:
            file.write(part)
            size += len(part)
            checksum = google_crc32c.extend(checksum, bytes(part))
        needed = _data_bytes(head, kind, count)
        if size != needed:
            raise ValueError(
                "{}: {!r} has {} bytes of rows, not {}".format(path, head.name, size, needed)
            )
        file.seek(0)
        _write_page(file, head, kind, (_PAGE, size, count), checksum)
        file.flush()
        os.fsync(file.fileno())


def _write_page(
    file: BinaryIO, head: TableHead, kind: int, sizes: Tuple[int, int, int], checksum: int
) -> None:
    name = head.name.encode("utf-8")
    rank = len(head.shape)
    if rank > _MOST_DIMENSIONS or len(name) > _LONGEST_NAME:
        raise ValueError(
            "{!r} has {} dimensions; a table file has at most {}, and names of {} bytes".format(
                head.name, rank, _MOST_DIMENSIONS, _LONGEST_NAME
            )
        )
    shape = (*head.shape, *[0] * (_MOST_DIMENSIONS - rank))
    page = _FIELDS.pack(
        _MAGIC, _VERSION, kind, head.dtype.as_datatype_enum, rank, *shape, *sizes,
        uuid.uuid4().bytes, checksum, len(name),
    )  # fmt: skip
    page = (page + name).ljust(_PAGE - _CHECKSUM.size, b"\0")
    file.write(page + _CHECKSUM.pack(google_crc32c.value(page)))


def _first_page(path: str) -> bytes:
    with open(path, "rb") as file:
        page = file.read(_PAGE)
    if len(page) < _PAGE:
        raise ValueError("{} has {} bytes, and so no table".format(path, len(page)))
    return page


def _dtype(path: str, number: int) -> Any:
    try:
        dtype = tf.as_dtype(number)
    except TypeError:
        raise ValueError("{} has numbers of no type".format(path)) from None
    if dtype == tf.string or not dtype.size or dtype.is_quantized:
        raise ValueError("{} has {}, which are no numbers".format(path, dtype.name))
    return dtype


def _data_bytes(head: TableHead, kind: int, count: int) -> int:
    """Bytes behind the first page; -1 if there cannot be so many rows."""
    if kind == _ALL:
        return head.num_rows * head.row_bytes if count == head.num_rows else -1
    return _number_bytes(count) + count * head.row_bytes if 0 <= count <= head.num_rows else -1


def _number_bytes(count: int) -> int:
    return -(-count * 8 // _ALIGNMENT) * _ALIGNMENT
