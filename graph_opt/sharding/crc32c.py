"""CRC-32C of large arrays, as TensorFlow's checkpoints have it; numpy's speed, not Python's.

A block is cut into lanes, whose checksums go on together, four bytes at a time. They are joined by
what so many zero bytes do to a checksum, which is linear.
"""

from __future__ import annotations

import functools
from typing import Any, List, Tuple

import numpy as np

_POLYNOMIAL = 0x82F63B78
_LANES = 2048
_LEAST_LANE_BYTES = 64
_BLOCK_BYTES = 4 << 20

Array = np.ndarray


class Crc32c:
    """The checksum of a stream.

    Example:
      >>> checksum = Crc32c()
      >>> checksum.add(b"123456789")
      >>> hex(checksum.value)
      '0xe3069283'
    """

    def __init__(self) -> None:
        self._state = 0xFFFFFFFF

    def add(self, data: Any) -> None:
        """Goes on with the stream."""
        rest = np.frombuffer(data, np.uint8)
        while len(rest):
            block, rest = rest[:_BLOCK_BYTES], rest[_BLOCK_BYTES:]
            lane = len(block) // _LANES // 4 * 4
            if lane >= _LEAST_LANE_BYTES:
                self._add_lanes(block[: lane * _LANES].reshape(_LANES, lane))
                block = block[lane * _LANES :]
            self._add_bytes(block.tobytes())

    @property
    def value(self) -> int:
        """The checksum so far."""
        return self._state ^ 0xFFFFFFFF

    def _add_bytes(self, data: bytes) -> None:
        table, state = _byte_table(), self._state
        for byte in data:
            state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
        self._state = state

    def _add_lanes(self, lanes: Array) -> None:
        low, high = _half_tables()
        columns = np.ascontiguousarray(lanes.view("<u4").T)
        states = np.zeros([len(lanes)], np.uint32)
        for column in columns:
            states ^= column
            states = low[states & 0xFFFF] ^ high[states >> 16]
        zeros = _zeros_table(lanes.shape[1])
        state = self._state
        for one in states.tolist():
            state = _times(zeros, state) ^ one
        self._state = state


@functools.lru_cache(maxsize=None)
def _byte_table() -> List[int]:
    return [_after_zeros(byte, 1) for byte in range(256)]


@functools.lru_cache(maxsize=None)
def _half_tables() -> Tuple[Array, Array]:
    """What four zero bytes make of the lower and of the upper half of a checksum."""
    numbers = np.arange(1 << 16, dtype=np.uint32)
    tables = []
    for state in (numbers, numbers << np.uint32(16)):
        for _ in range(32):
            state = (state >> np.uint32(1)) ^ (np.uint32(_POLYNOMIAL) * (state & np.uint32(1)))
        tables.append(state)
    return tables[0], tables[1]


@functools.lru_cache(maxsize=64)
def _zeros_table(count: int) -> List[List[int]]:
    """What so many zero bytes make of each byte of a checksum."""
    columns = [_power(1 << bit, count) for bit in range(32)]
    return [
        [
            functools.reduce(
                lambda left, right: left ^ right,
                (columns[8 * place + bit] for bit in range(8) if byte >> bit & 1),
                0,
            )
            for byte in range(256)
        ]
        for place in range(4)
    ]


def _power(state: int, count: int) -> int:
    """A checksum after so many zero bytes, by squaring what one of them does."""
    matrix = [_after_zeros(1 << bit, 1) for bit in range(32)]
    while count:
        if count & 1:
            state = _product(matrix, state)
        matrix = [_product(matrix, column) for column in matrix]
        count >>= 1
    return state


def _product(matrix: List[int], state: int) -> int:
    result, bit = 0, 0
    while state:
        if state & 1:
            result ^= matrix[bit]
        state >>= 1
        bit += 1
    return result


def _times(table: List[List[int]], state: int) -> int:
    return (
        table[0][state & 0xFF]
        ^ table[1][state >> 8 & 0xFF]
        ^ table[2][state >> 16 & 0xFF]
        ^ table[3][state >> 24]
    )


def _after_zeros(state: int, count: int) -> int:
    for _ in range(8 * count):
        state = (state >> 1) ^ (_POLYNOMIAL if state & 1 else 0)
    return state
