"""The wire format of protobuf, read from a file of any size.

Protobuf parses a message as a whole, in memory, and none of more than 2 GiB. Its encoding
(https://protobuf.dev/programming-guides/encoding) tells where each field ends: a message can be
read in runs of whole fields, each of which protobuf parses as a message of the same type.
"""

from __future__ import annotations

import sys
from typing import BinaryIO, Callable, Container, Iterator, NamedTuple, Optional, Tuple

from graph_opt.compat.varint import TooLong, read_varint

MOST_MESSAGE_BYTES = (1 << 31) - 1
"""The largest message that protobuf parses or writes."""
_BLOCK_BYTES = 4 << 20
_VARINT, _FIXED64, _WITH_LENGTH, _FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_CUT = "it ends in the middle of a field"


class Damaged(ValueError):
    """The bytes are no message in wire format."""


class TooLarge(ValueError):
    """A field is larger than any message that protobuf reads."""


class Field(NamedTuple):
    """A field that has a length: a message, a string, bytes or packed numbers.

    Attributes:
      number: Its number in the message.
      length: Bytes of its value.
    """

    number: int
    length: int


class Piece(NamedTuple):
    """Some fields of a message.

    Attributes:
      data: Whole fields, as they are in the file; b"" for none.
      field: The field behind them, at whose value the file now is, if it is to be treated apart.
    """

    data: bytes
    field: Optional[Field] = None


class WireFile:
    """Reads messages, of which a few megabytes are in memory at a time.

    Args:
      file: Binary, seekable, at any position.
      size: Its bytes; None if they are not known, as of what is packed.
      progress: Called after each block that was read.

    Attributes:
      end: Where the file ends; larger than any position if that is not known.

    Example:
      >>> wire = WireFile(file, size)
      >>> wire.piece(wire.end, apart=(2,), large=1 << 20)
      Piece(data=b'...', field=Field(number=2, length=5000000))
    """

    def __init__(
        self, file: BinaryIO, size: Optional[int], progress: Callable[[], None] = lambda: None
    ) -> None:
        self._file = file
        self._progress = progress
        self._has_end = size is not None
        self.end = sys.maxsize if size is None else size
        self.seek(0)

    @property
    def position(self) -> int:
        """Where in the file what comes next begins."""
        return self._start + self._at

    def seek(self, position: int) -> None:
        """Goes to a position in the file."""
        self._file.seek(position)
        self._window, self._start, self._at = b"", position, 0

    def piece(
        self, end: int, apart: Container[int] = (), large: int = sys.maxsize
    ) -> Optional[Piece]:
        """Reads on in a message, up to the next field to be treated apart, or some megabytes.

        Args:
          end: Where the message ends.
          apart: Numbers of the fields to be treated apart.
          large: Fields of more bytes are treated apart, too.

        Returns:
          None at the end of the message.

        Raises:
          Damaged: What comes next is no field, or the message ends within it.
          TooLarge: It does not fit into memory as protobuf wants it.
        """
        while self.position < end:
            stop = min(len(self._window), end - self._start)
            first = self._at
            at, field, needed = _whole_fields(self._window, first, stop, apart, large)
            if field is not None:
                self._at = needed
                self._check(self.position + field.length <= end)
                return Piece(self._window[first:at], field)
            if at > first:
                self._at = at
                return Piece(self._window[first:at])
            self._check(self._start + needed <= end and self._start + stop < end)
            if not self._read(needed - len(self._window)):
                self._check(end == sys.maxsize and self._at == len(self._window))
                return None
        return None

    def pieces(
        self, end: int, apart: Container[int] = (), large: int = sys.maxsize
    ) -> Iterator[Piece]:
        """All pieces of a message; whoever gets a field passes over its value before the next."""
        piece = self.piece(end, apart, large)
        while piece is not None:
            yield piece
            piece = self.piece(end, apart, large)

    def skip(self, length: int, consume: Optional[Callable[[bytes], None]] = None) -> None:
        """Passes over the value of a field.

        Args:
          length: Its bytes.
          consume: Called with them, a block after the other.

        Raises:
          Damaged: The file ends before.
        """
        end = self.position + length
        if consume is None and self._has_end:
            self._check(end <= self.end)
            self.seek(end)
            return
        while self.position < end:
            block = self._window[self._at : self._at + end - self.position]
            self._at += len(block)
            if consume is not None:
                consume(block)
            self._check(self.position == end or self._read(1))

    def _read(self, needed: int) -> bool:
        """Reads the next block, of at least so many bytes; returns False at the end."""
        if needed > MOST_MESSAGE_BYTES:
            raise TooLarge("a field of more than {} bytes".format(needed))
        block = self._file.read(max(needed, _BLOCK_BYTES))
        self._start += self._at
        self._window, self._at = self._window[self._at :] + block, 0
        self._progress()
        return bool(block)

    def _check(self, is_whole: bool) -> None:
        if not is_whole:
            raise Damaged(_CUT)


def _whole_fields(
    window: bytes, at: int, stop: int, apart: Container[int], large: int
) -> Tuple[int, Optional[Field], int]:
    """Passes over the fields that end before `stop`.

    Returns:
      Where they end; the field behind them if it is to be treated apart; and where the value of
      that field begins, or else up to where the window has to be read to go on.
    """
    while at < stop:
        try:
            # This loop runs for each node: most tags have one byte.
            tag, length = window[at], window[at + 1]
            if tag & 7 == _WITH_LENGTH and 7 < tag < 128 and length < 128:
                value = at + 2
            else:
                tag, length, value = _header(window, at)
        except IndexError:
            return at, None, len(window) + 1
        except TooLong as error:
            raise Damaged(str(error)) from None
        if tag & 7 == _WITH_LENGTH and (length > large or tag >> 3 in apart):
            return at, Field(tag >> 3, length), value
        if value + length > stop:
            return at, None, value + length
        at = value + length
    return at, None, len(window) + 1


def _header(window: bytes, at: int) -> Tuple[int, int, int]:
    """The tag of a field, the bytes of its value, and where this begins."""
    tag, at = read_varint(window, at)
    if tag < 8:
        raise Damaged("it has a field numbered 0")
    kind = tag & 7
    if kind == _WITH_LENGTH:
        return (tag, *read_varint(window, at))
    if kind == _VARINT:
        return tag, 0, read_varint(window, at)[1]
    if kind not in _FIXED_BYTES:
        raise Damaged("it has a field of an unknown kind")
    return tag, _FIXED_BYTES[kind], at
