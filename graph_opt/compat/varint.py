"""Numbers of a variable number of bytes, as protobuf's messages and LevelDB's tables have them.

Seven bits a byte, the lowest first; all bytes but the last have the eighth bit set
(https://protobuf.dev/programming-guides/encoding/#varints).
"""

from __future__ import annotations

from typing import Tuple


class TooLong(ValueError):
    """A number has more than 64 bits."""


def varint(number: int) -> bytes:
    r"""The bytes of a number.

    Example:
      >>> varint(300)
      b'\xac\x02'
    """
    parts = []
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def read_varint(data: bytes, place: int) -> Tuple[int, int]:
    r"""The number that begins at a place, and the place behind it.

    Raises:
      IndexError: The data ends in the middle of it.
      TooLong: It has more than 64 bits.

    Example:
      >>> read_varint(b"\xac\x02", 0)
      (300, 2)
    """
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7
        if shift > 63:
            raise TooLong("it has a number of more than 64 bits")
