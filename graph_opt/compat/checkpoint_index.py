"""Where TensorFlow's checkpoints have their tensors: the index file, read without the tensors.

TensorFlow reads whole stored tensors even when asked for a slice. Who knows where a tensor is can
read any rows of it. The index is a table (`index_blocks`) from names to `BundleEntryProto`; slices
of a tensor have keys of their own, in an encoding that keeps their order (`tensor_slice` and
`ordered_code` in TensorFlow's sources).
"""

from __future__ import annotations

import functools
import operator
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import tensor_bundle_pb2

from graph_opt.compat import tf
from graph_opt.compat.index_blocks import entries_of_index, unmasked


class StoredPiece(NamedTuple):
    """A part of a tensor that lies in one piece, row by row.

    Attributes:
      path: File.
      offset: Where in it.
      starts: Of each dimension.
      shape: Sizes in each dimension.
      crc32c: Checksum of its bytes.
    """

    path: str
    offset: int
    starts: Tuple[int, ...]
    shape: Tuple[int, ...]
    crc32c: int


class StoredTensor(NamedTuple):
    """A tensor of a checkpoint.

    Attributes:
      name: Its name.
      shape: Of the whole tensor.
      dtype: TensorFlow's dtype.
      pieces: What it consists of; strings and others without a fixed size have none.
    """

    name: str
    shape: Tuple[int, ...]
    dtype: Any
    pieces: Tuple[StoredPiece, ...]


def stored_tensors(prefix: str) -> Dict[str, StoredTensor]:
    """All tensors of a checkpoint, by name.

    Raises:
      FileNotFoundError: There is no such checkpoint.
      ValueError: Its index is damaged, or of another kind of machine.
    """
    path = prefix + ".index"
    try:
        values = dict(_entries(path))
        header = tensor_bundle_pb2.BundleHeaderProto.FromString(values[b""])
        found = [
            _tensor(prefix, key.decode("utf-8"), values, header.num_shards)
            for key in values
            if key and key[:1] != b"\0"
        ]
    except (KeyError, TypeError, UnicodeDecodeError, DecodeError) as error:
        raise ValueError("{} is damaged".format(path)) from error
    if header.endianness != tensor_bundle_pb2.BundleHeaderProto.LITTLE:
        raise ValueError("{} has numbers in big-endian order".format(path))
    return {tensor.name: tensor for tensor in found}


def open_file(path: str) -> Any:
    """Opens a file to read bytes: of this machine, or of a file system that TensorFlow knows."""
    if "://" in path:
        return tf.gfile.GFile(path, "rb")
    return open(path, "rb")  # which reads three times as fast


def _tensor(prefix: str, name: str, values: Dict[bytes, bytes], shards: int) -> StoredTensor:
    entry = tensor_bundle_pb2.BundleEntryProto.FromString(values[name.encode("utf-8")])
    shape = tuple(dimension.size for dimension in entry.shape.dim)
    dtype = tf.as_dtype(entry.dtype)
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex):
        return StoredTensor(name, shape, dtype, ())
    pieces: List[StoredPiece] = []
    for stored in entry.slices:
        extents = [
            (one.start, one.length if one.HasField("length") else -1) for one in stored.extent
        ]
        key = _key_of_slice(name, extents)
        piece = tensor_bundle_pb2.BundleEntryProto.FromString(values[key])
        starts = tuple(start for start, _ in extents)
        sizes = tuple(size if length < 0 else length for (_, length), size in zip(extents, shape))
        pieces.append(_piece(prefix, piece, starts, sizes, shards))
        _check_bytes(prefix, name, piece.size, sizes, dtype)
    if not entry.slices:
        pieces.append(_piece(prefix, entry, (0,) * len(shape), shape, shards))
        _check_bytes(prefix, name, entry.size, shape, dtype)
    _check_pieces(prefix, name, shape, pieces)
    return StoredTensor(name, shape, dtype, tuple(pieces))


def _numbers_in(shape: Sequence[int]) -> int:
    return functools.reduce(operator.mul, shape, 1)  # as large as a damaged shape may be


def _check_bytes(prefix: str, name: str, size: int, shape: Sequence[int], dtype: Any) -> None:
    if size != _numbers_in(shape) * dtype.size:
        raise ValueError(
            "{}.index is damaged: {!r} has {} bytes for shape {} of {}".format(
                prefix, name, size, list(shape), dtype.name
            )
        )


def _check_pieces(
    prefix: str, name: str, shape: Tuple[int, ...], pieces: Sequence[StoredPiece]
) -> None:
    """Whoever reads rows leaves places as they were for which there is no piece."""
    inside = all(
        len(piece.starts) == len(piece.shape) == len(shape)
        and all(
            0 <= start and 0 <= size and start + size <= whole
            for start, size, whole in zip(piece.starts, piece.shape, shape)
        )
        for piece in pieces
    )
    if not inside or sum(_numbers_in(piece.shape) for piece in pieces) != _numbers_in(shape):
        raise ValueError("{}.index is damaged: {!r} lacks a piece".format(prefix, name))


def _piece(
    prefix: str, entry: Any, starts: Tuple[int, ...], shape: Tuple[int, ...], shards: int
) -> StoredPiece:
    path = "{}.data-{:05d}-of-{:05d}".format(prefix, entry.shard_id, shards)
    return StoredPiece(path, entry.offset, starts, shape, unmasked(entry.crc32c))


def _entries(path: str) -> Iterator[Tuple[bytes, bytes]]:
    if not tf.gfile.Exists(path):
        raise FileNotFoundError("{} does not exist".format(path))
    with open_file(path) as opened:
        data = opened.read()
    try:
        yield from entries_of_index(data)
    except ValueError as error:
        raise ValueError("{} is {}".format(path, error)) from error


def _key_of_slice(name: str, extents: List[Tuple[int, int]]) -> bytes:
    key = _ordered(0) + name.encode("utf-8") + b"\0\1" + _ordered(len(extents))
    for start, length in extents:
        key += _ordered_signed(start) + _ordered_signed(length)
    return key


def _ordered(number: int) -> bytes:
    digits = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(digits)]) + digits


def _ordered_signed(number: int) -> bytes:
    """As many bytes as there are leading ones; the bit behind them tells numbers below zero."""
    magnitude = ~number if number < 0 else number
    length = magnitude.bit_length() // 7 + 1
    leading = ((1 << length) - 1) << (8 * length - length)
    return ((number ^ leading) & ((1 << (8 * length)) - 1)).to_bytes(length, "big")
