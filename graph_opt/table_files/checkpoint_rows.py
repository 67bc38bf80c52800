"""Rows of a checkpoint's tensors, read where they are: TensorFlow reads whole stored tensors."""

from __future__ import annotations

import contextlib
from typing import Dict, Iterator

import google_crc32c
import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.checkpoint_index import (
    StoredPiece,
    StoredTensor,
    open_file,
    stored_tensors,
)

_CHECKED_BYTES = 16 << 20

Array = np.ndarray


class CheckpointRows:
    """The tensors of a checkpoint.

    Args:
      prefix: What `tf.train.Saver.save` has returned.

    Attributes:
      prefix: The same.
      tensors: By name.

    Raises:
      FileNotFoundError: There is no such checkpoint.
      ValueError: Its index is damaged.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.tensors: Dict[str, StoredTensor] = stored_tensors(prefix)

    def rows(self, name: str, first: int, count: int) -> Array:
        """Rows [first, first + count) of a tensor of one or two dimensions.

        Raises:
          ValueError: A file is shorter than it should be, or the tensor has no such rows.
        """
        tensor = self.tensors[name]
        if not tensor.shape or not tensor.pieces:
            raise ValueError(
                "{!r} of {} has shape {} and dtype {}, and so no rows of numbers".format(
                    name, self.prefix, list(tensor.shape), tensor.dtype.name
                )
            )
        if first < 0 or first + count > tensor.shape[0]:
            raise ValueError(
                "{!r} has {} rows in {}, and so not rows {} to {}".format(
                    name, tensor.shape[0], self.prefix, first, first + count - 1
                )
            )
        dtype = np.dtype(tensor.dtype.as_numpy_dtype)
        rows = np.empty((count,) + tensor.shape[1:], dtype)
        for piece in tensor.pieces:
            begin = max(first, piece.starts[0])
            end = min(first + count, piece.starts[0] + piece.shape[0])
            if begin >= end:
                continue
            row_size = int(np.prod(piece.shape[1:], dtype=np.int64))
            data = _read(
                piece,
                (begin - piece.starts[0]) * row_size * dtype.itemsize,
                (end - begin) * row_size * dtype.itemsize,
            )
            values = np.frombuffer(data, dtype).reshape((end - begin,) + piece.shape[1:])
            columns = tuple(
                slice(start, start + size) for start, size in zip(piece.starts[1:], piece.shape[1:])
            )
            rows[(slice(begin - first, end - first),) + columns] = values
        return rows

    def number(self, name: str) -> float:
        """A tensor that is a single number.

        Raises:
          ValueError: A file is shorter than it should be.
        """
        tensor = self.tensors[name]
        data = _read(tensor.pieces[0], 0, tensor.dtype.size)
        return float(np.frombuffer(data, tensor.dtype.as_numpy_dtype)[0])

    def check(self, name: str) -> None:
        """Compares a tensor with its checksums.

        Raises:
          ValueError: It is damaged.
        """
        tensor = self.tensors[name]
        for piece in tensor.pieces:
            checksum = 0
            for data in _blocks(piece, tensor.dtype.size):
                checksum = google_crc32c.extend(checksum, data)
            if checksum != piece.crc32c:
                raise ValueError(
                    "{} is damaged: {!r} is not what its checksum was made of".format(
                        piece.path, name
                    )
                )


@contextlib.contextmanager
def tensorflow_errors() -> Iterator[None]:
    """Raises what TensorFlow raises for checkpoints that are missing or damaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, str(error)) from error
    except ValueError as error:
        raise tf.errors.DataLossError(None, None, str(error)) from error


def _blocks(piece: StoredPiece, item_bytes: int) -> Iterator[bytes]:
    size = int(np.prod(piece.shape, dtype=np.int64)) * item_bytes
    for first in range(0, size, _CHECKED_BYTES):
        yield _read(piece, first, min(_CHECKED_BYTES, size - first))


def _read(piece: StoredPiece, first: int, size: int) -> bytes:
    with open_file(piece.path) as opened:
        opened.seek(piece.offset + first)
        data = opened.read(size)
    if len(data) != size:
        raise ValueError("{} ends before its tensors do".format(piece.path))
    return data
