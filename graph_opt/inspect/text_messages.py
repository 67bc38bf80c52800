"""Text protos of any size, parsed by TensorFlow's C++ parser a piece at a time.

It is reached through `tf.io.decode_proto`. A text of 76 MB takes 1.3 s and 170 MB of memory; the
parser in Python takes a minute and 2.4 GB.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, BinaryIO, Iterator, List, NamedTuple, Optional, Tuple

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graph_opt.compat import tf
from graph_opt.compat.text_nesting import MOST_LEVELS, too_deep
from graph_opt.compat.varint import varint
from graph_opt.inspect.opened_files import Progress, Unusable
from graph_opt.reporting.tables import bytes_text

if TYPE_CHECKING:
    from graph_opt.inspect.graph_parts import GraphParts

_MOST_WHOLE_BYTES = 256 << 20
_PIECE_BYTES = 4 << 20
# Below this size, Python's parser takes less time than starting a session.
_SMALL_BYTES = 100_000


class TextError(ValueError):
    """The text is not a message of the expected type.

    Attributes:
      line: Line of the fault, from 1; None if it is unknown.
      column: Column of the fault.
    """

    def __init__(self, message: str, line: Optional[int] = None, column: Optional[int] = None):
        super().__init__(message)
        self.line = line
        self.column = column


class _Piece(NamedTuple):
    text: bytes
    first_line: int
    end: int


def parse_text(
    file: BinaryIO,
    message: Any,
    progress: Optional[Progress] = None,
    parts: Optional[GraphParts] = None,
) -> Any:
    """Reads a text proto.

    Args:
      file: The text, from its start; must be seekable.
      message: An empty message of TensorFlow's, which is filled.
      progress: Called now and then with the bytes read so far and the total.
      parts: Is told of each part of the text that has come into the message, its GraphDef.

    Returns:
      `message`, or another one if it had to be read again or is that of `parts`.

    Raises:
      TextError: The file is not a text proto of such a message.
      OSError: The file cannot be read.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if size <= _SMALL_BYTES:
        text = file.read()
        _check_nesting(text, 1)
        _parse_small(text, message)
        return _taken(message, parts)
    with _Parser(message.DESCRIPTOR) as parser:
        for piece in _pieces(file):
            _check_nesting(piece.text, piece.first_line)
            if not parser.merge(piece.text, message):
                return _parse_whole(file, size, _restarted(message, parts), parser, piece, parts)
            message = _taken(message, parts)
            if progress is not None:
                progress(piece.end, size)
    return message


def _taken(message: Any, parts: Optional[GraphParts]) -> Any:
    """The message to go on with, after a part of the text has come into it."""
    if parts is None:
        return message
    parts.note_added()
    return parts.graph_def


def _restarted(message: Any, parts: Optional[GraphParts]) -> Any:
    if parts is None:
        return type(message)()
    parts.restart()
    return parts.graph_def


def _pieces(file: BinaryIO) -> Iterator[_Piece]:
    """Cuts the text after lines whose layout says that they close a top-level field."""
    lines: List[bytes] = []
    size = end = count = 0
    first_line = 1
    for line in iter(lambda: file.readline(_MOST_WHOLE_BYTES), b""):
        lines.append(line)
        size += len(line)
        _check_size(size)
        if size >= _PIECE_BYTES and line.rstrip() == b"}" and line.startswith(b"}"):
            end += size
            yield _Piece(b"".join(lines), first_line, end)
            count += len(lines)
            first_line = count + 1
            lines, size = [], 0
    if lines:
        yield _Piece(b"".join(lines), first_line, end + size)


def _parse_whole(
    file: BinaryIO,
    size: int,
    message: Any,
    parser: _Parser,
    piece: _Piece,
    parts: Optional[GraphParts],
) -> Any:
    """Parses it as a whole: the layout misled the cuts, or the text of this piece is wrong."""
    _check_size(size)
    file.seek(0)
    text = file.read()
    _check_nesting(text, 1)
    if parser.merge(text, message):
        return _taken(message, parts)
    _parse_small(piece.text, type(message)(), piece.first_line)
    raise TextError("line {} or a later one is wrong".format(piece.first_line), piece.first_line)


def _check_size(size: int) -> None:
    """Refuses what the parser would need several times its size in memory for."""
    if size > _MOST_WHOLE_BYTES:
        raise Unusable(
            "more than {} of text cannot be read in one piece, as fields of a GraphDef can: write "
            "the graph as binary, by tf.io.write_graph(..., as_text=False)".format(
                bytes_text(_MOST_WHOLE_BYTES)
            )
        )


def _check_nesting(text: bytes, first_line: int) -> None:
    """Refuses what no parser of protobuf gets to the end of."""
    line = too_deep(text)
    if line is not None:
        raise TextError(
            "messages are nested deeper than {} levels".format(MOST_LEVELS), first_line + line - 1
        )


def _parse_small(text: bytes, message: Any, first_line: int = 1) -> None:
    try:
        text_format.Parse(text.decode("utf-8"), message)
    except UnicodeDecodeError as error:
        raise TextError("byte {} is not UTF-8".format(error.start)) from error
    except text_format.ParseError as error:
        line = error.GetLine()
        position = None if line is None else line + first_line - 1
        raise TextError(str(error), position, error.GetColumn()) from error


class _Parser:
    """Takes a text proto apart with TensorFlow's op, and merges the parts in wire format."""

    def __init__(self, descriptor: Any) -> None:
        self._fields = list(descriptor.fields)
        graph = tf.Graph()
        with graph.as_default():
            self._text = tf.placeholder(tf.string, [])
            dtypes = [
                tf.string if field.message_type is not None else tf.int64 for field in self._fields
            ]
            decoded = tf.io.decode_proto(
                self._text,
                descriptor.full_name,
                [field.name for field in self._fields],
                dtypes,
                message_format="text",
            )
        self._decoded = (decoded.sizes, decoded.values)
        # The text is large: it must not become a constant, nor be copied to another device.
        self._session = tf.Session(graph=graph, config=tf.ConfigProto(device_count={"GPU": 0}))

    def __enter__(self) -> _Parser:
        return self

    def __exit__(self, *error: Any) -> None:
        self._session.close()

    def merge(self, text: bytes, message: Any) -> bool:
        """Merges a text into a message; returns False if it is not of that type."""
        try:
            with _standard_error_closed():
                sizes, values = self._session.run(self._decoded, {self._text: text})
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError):
            return False
        try:
            self._take(sizes, values, message)
        except DecodeError:  # The parser of text takes strings that are not UTF-8.
            return False
        return True

    def _take(self, sizes: Any, values: Any, message: Any) -> None:
        for field, size, column in zip(self._fields, sizes, values):
            if field.message_type is None:
                if size:
                    setattr(message, field.name, int(column[0]))
                continue
            wire = bytearray()
            for value in column[:size]:
                wire += varint(field.number << 3 | 2) + varint(len(value)) + value
            message.MergeFromString(bytes(wire))


@contextlib.contextmanager
def _standard_error_closed() -> Iterator[None]:
    """Hides the C++ parser's own messages from the user, who gets one line instead."""
    kept: Tuple[int, int] = (os.dup(2), os.open(os.devnull, os.O_WRONLY))
    os.dup2(kept[1], 2)
    try:
        yield
    finally:
        os.dup2(kept[0], 2)
        for descriptor in kept:
            os.close(descriptor)
