"""Files as graphs come in: bare, packed by gzip, or from a pipe; and what is no graph at all."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import stat
import sys
import tempfile
import zlib
from typing import Any, BinaryIO, Callable, Iterator, NamedTuple, Optional, Tuple

from graph_opt.reporting.tables import bytes_text

Progress = Callable[[int, int], None]
"""Is told the bytes read so far, and the total."""
HEAD_BYTES = 1 << 16
STANDARD_INPUT = "-"
_MOST_UNPACKED_BYTES = 4 << 30
_MOST_PIPED_BYTES = 4 << 30
_MOST_PIPED_IN_MEMORY = 64 << 20
_BLOCK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
_SAVE_IT = "save the model as a SavedModel, or write its graph with tf.io.write_graph"
_UNPACK_IT = "unpack it first"
# Where a file has which bytes, what it then is, and what to do.
_FOREIGN: Tuple[Tuple[int, bytes, str, str], ...] = (
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes", _SAVE_IT),
    (0, b"PK\x03\x04", "a zip archive, as .keras files are", _SAVE_IT),
    (4, b"TFL3", "a TensorFlow Lite model", "give the graph that it was converted from"),
    (0, b"\x89PNG", "a picture", ""),
    (0, b"\xff\xd8\xff", "a picture", ""),
    (0, b"\x93NUMPY", "an array of NumPy", ""),
    (0, b"\x7fELF", "a program", ""),
    (0, b"%PDF", "a PDF document", ""),
    (0, b"\xfd7zXZ", "packed by xz", _UNPACK_IT),
    (0, b"BZh", "packed by bzip2", _UNPACK_IT),
    (0, b"\x28\xb5\x2f\xfd", "packed by zstd", _UNPACK_IT),
)


class Unusable(ValueError):
    """A file that cannot hold a graph, or too much of one; the text is for the user."""


class OpenedFile(NamedTuple):
    """A file that is open for reading.

    Attributes:
      file: What it holds, unpacked; seekable.
      size: Bytes of that; None if they are not known.
      head: The first of them.
      progress: To be called now and then while it is read.
    """

    file: BinaryIO
    size: Optional[int]
    head: bytes
    progress: Callable[[], None]


def is_onnx(head: bytes) -> bool:
    """Whether a file that is no graph starts as ONNX models do: a version and who made it."""
    if len(head) < 4 or head[0] != 0x08 or head[2] != 0x12:
        return False
    made_by = head[4 : 4 + head[3]]
    return 0 < len(made_by) < 128 and made_by.isascii() and made_by.decode("ascii").isprintable()


@contextlib.contextmanager
def opened(name: str, progress: Optional[Progress]) -> Iterator[OpenedFile]:
    """Opens a file.

    Args:
      name: Its path; `-` is standard input.
      progress: Called with the bytes read so far and the total.

    Raises:
      Unusable: It is empty, or of a kind that has no graph.
      OSError: It cannot be read.
    """
    with contextlib.ExitStack() as stack:
        raw: Any = sys.stdin.buffer
        if name != STANDARD_INPUT:
            raw = stack.enter_context(open(name, "rb"))
        if not stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            raw = stack.enter_context(_stored(raw))
        size = raw.seek(0, os.SEEK_END)
        raw.seek(0)
        head = raw.read(HEAD_BYTES)
        _check_head(head)

        def told() -> None:
            if progress is not None:
                progress(raw.tell(), size)

        if not head.startswith(_GZIP):
            yield OpenedFile(raw, size, head, told)
            return
        raw.seek(0)
        unpacked: Any = io.BufferedReader(_Unpacked(raw), _BLOCK_BYTES)
        head = unpacked.read(HEAD_BYTES)
        _check_head(head)
        yield OpenedFile(unpacked, None, head, told)


def _check_head(head: bytes) -> None:
    if not head:
        raise Unusable("the file is empty")
    if not any(head):
        raise Unusable("it is a file of zeros, not a graph")
    for place, start, kind, remedy in _FOREIGN:
        if head[place : place + len(start)] == start:
            raise Unusable("it is {}, not a graph{}".format(kind, remedy and ": " + remedy))


def _stored(pipe: BinaryIO) -> Any:
    """What comes from a pipe or a device, which can be read only once, in a temporary file."""
    head = pipe.read(HEAD_BYTES)
    _check_head(head)
    file = tempfile.SpooledTemporaryFile(_MOST_PIPED_IN_MEMORY)
    block = head
    while block:
        file.write(block)
        if file.tell() > _MOST_PIPED_BYTES:
            file.close()
            size = bytes_text(_MOST_PIPED_BYTES)
            raise Unusable("more than {} come from it: give a file".format(size))
        block = pipe.read(_BLOCK_BYTES)
    return file


class _Unpacked(io.RawIOBase):
    """What a gzip file holds, up to a limit: a small file may hold any amount."""

    def __init__(self, packed: BinaryIO) -> None:
        super().__init__()
        self._gzip = gzip.GzipFile(fileobj=packed, mode="rb")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._gzip.tell()

    def seek(self, position: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_END:
            while self._read(_BLOCK_BYTES):
                pass
            return self.tell()
        if whence == os.SEEK_CUR:
            position += self.tell()
        if position < self.tell():
            return self._gzip.seek(position)
        while self.tell() < position and self._read(min(_BLOCK_BYTES, position - self.tell())):
            pass
        return self.tell()

    def readinto(self, buffer: Any) -> int:
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, most: int) -> bytes:
        try:
            data = self._gzip.read(most)
        except (EOFError, OSError, zlib.error) as error:
            raise Unusable("truncated or damaged: {}".format(error)) from error
        if self._gzip.tell() > _MOST_UNPACKED_BYTES:
            raise Unusable(
                "it holds more than {}: unpack it first, if you trust it".format(
                    bytes_text(_MOST_UNPACKED_BYTES)
                )
            )
        return data
