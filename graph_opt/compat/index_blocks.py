"""The file format of a checkpoint's index: a table of LevelDB, sorted keys and values in blocks.

Each block is followed by how it is compressed, and a checksum. TensorFlow compares neither in some
readers, and a changed bit in a key makes a tensor disappear; here every block is compared.
"""

from __future__ import annotations

import struct
from typing import Iterator, Tuple

import google_crc32c

from graph_opt.compat.varint import TooLong, read_varint

_FOOTER_BYTES = 48
_MAGIC = 0xDB4775248B80FB57
_MASK = 0xA282EAD8
# Writers repeat a whole key after 15 that tell only how they go on: keys beyond a multiple of the
# file would take memory that only a forged one asks for.
_MOST_KEY_BYTES = 64


def entries_of_index(data: bytes) -> Iterator[Tuple[bytes, bytes]]:
    """Keys and values of an index, in order.

    Raises:
      ValueError: It is no index, or damaged.
    """
    if len(data) < _FOOTER_BYTES or struct.unpack("<Q", data[-8:])[0] != _MAGIC:
        raise ValueError("no index of a checkpoint")
    try:
        yield from _entries(data)
    except (IndexError, TooLong, struct.error) as error:
        raise ValueError("damaged") from error


def unmasked(checksum: int) -> int:
    """A checksum of bytes, of which LevelDB's formats store another."""
    rotated = (checksum - _MASK) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def _entries(data: bytes) -> Iterator[Tuple[bytes, bytes]]:
    place = len(data) - _FOOTER_BYTES
    for _ in range(2):  # the index of other things, which is empty
        _, place = read_varint(data, place)
    end, key_bytes = 0, 0
    for _, handle in _entries_of_block(_block(data, *_handle(data[place:]))):
        begin, size = _handle(handle)
        if begin < end:
            raise ValueError("damaged: its blocks overlap")
        end = begin + size
        for key, value in _entries_of_block(_block(data, begin, size)):
            key_bytes += len(key)
            if key_bytes > _MOST_KEY_BYTES * len(data):
                raise ValueError("damaged: its keys are longer than it can have")
            yield key, value


def _block(data: bytes, begin: int, size: int) -> bytes:
    compression, checksum = struct.unpack_from("<BI", data, begin + size)
    if google_crc32c.value(data[begin : begin + size + 1]) != unmasked(checksum):
        raise ValueError("damaged: a block is not what its checksum was made of")
    if compression:
        raise ValueError("compressed")
    return data[begin : begin + size]


def _entries_of_block(block: bytes) -> Iterator[Tuple[bytes, bytes]]:
    (restarts,) = struct.unpack("<I", block[-4:])
    end = len(block) - 4 * (restarts + 1)
    key, place = b"", 0
    while place < end:
        shared, place = read_varint(block, place)
        added, place = read_varint(block, place)
        value_bytes, place = read_varint(block, place)
        key = key[:shared] + block[place : place + added]
        place += added
        yield key, block[place : place + value_bytes]
        place += value_bytes


def _handle(data: bytes) -> Tuple[int, int]:
    """Where a block begins, and its size."""
    begin, place = read_varint(data, 0)
    return begin, read_varint(data, place)[0]
