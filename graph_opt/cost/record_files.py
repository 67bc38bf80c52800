"""TFRecord files, read without TensorFlow, which allocates whatever length a record claims."""

from __future__ import annotations

import gzip
import struct
import zlib
from typing import Any, Iterator

import google_crc32c

from graph_opt.compat import tf
from graph_opt.compat.index_blocks import unmasked

_MOST_RECORD_BYTES = 256 << 20


def records_of(path: str) -> Iterator[bytes]:
    """The records of a file.

    Args:
      path: The file, packed by gzip if it ends in `.gz`.

    Raises:
      tf.errors.NotFoundError: There is no such file.
      tf.errors.DataLossError: It is no TFRecord file, or damaged.
    """
    with tf.gfile.GFile(path, "rb") as opened:
        file = gzip.GzipFile(fileobj=opened, mode="rb") if path.endswith(".gz") else opened
        try:
            while True:
                header = file.read(8)
                if not header:
                    return
                (size,) = struct.unpack("<Q", _checked(path, header, file.read(4)))
                if size > _MOST_RECORD_BYTES:
                    raise _damaged(path, "a record of {} bytes".format(size))
                yield _checked(path, file.read(size), file.read(4))
        except (EOFError, OSError, zlib.error) as error:
            raise _damaged(path, str(error)) from error


def _checked(path: str, data: bytes, checksum: bytes) -> bytes:
    if len(checksum) < 4:
        raise _damaged(path, "it ends within a record")
    if google_crc32c.value(data) != unmasked(struct.unpack("<I", checksum)[0]):
        raise _damaged(path, "a record is not what its checksum was made of")
    return data


def _damaged(path: str, why: str) -> Any:
    return tf.errors.DataLossError(
        None, None, "{}: no TFRecord file, or damaged: {}".format(path, why)
    )
