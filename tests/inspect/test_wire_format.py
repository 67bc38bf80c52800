"""Messages read from a file in pieces are those that protobuf wrote."""

from __future__ import annotations

import io
from typing import Any, List

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graph_opt.compat import tf
from graph_opt.compat.varint import varint
from graph_opt.inspect import wire_format
from graph_opt.inspect.wire_format import Damaged, TooLarge, WireFile
from tests.example_share import example_share

texts = st.text(max_size=300)


@st.composite
def nodes(draw: st.DrawFn) -> Any:
    node = tf.NodeDef(name=draw(texts), op=draw(texts), input=draw(st.lists(texts, max_size=4)))
    for key in draw(st.lists(texts, max_size=3, unique=True)):
        value = node.attr[key]
        if draw(st.booleans()):
            value.tensor.float_val.extend(draw(st.lists(st.floats(width=32, allow_nan=False))))
        else:
            value.i = draw(st.integers(-(1 << 63), (1 << 63) - 1))
    return node


@st.composite
def graphs(draw: st.DrawFn) -> Any:
    graph_def = tf.GraphDef(node=draw(st.lists(nodes(), max_size=8)))
    graph_def.versions.producer = draw(st.integers(0, 1 << 30))
    if draw(st.booleans()):
        function = graph_def.library.function.add()
        function.node_def.extend(draw(st.lists(nodes(), max_size=3)))
    return graph_def


class _Blocks(io.BytesIO):
    """A file that is read in blocks of a few bytes, so that fields lie across their ends."""

    def __init__(self, data: bytes, block: int) -> None:
        super().__init__(data)
        self._block = block

    def read(self, size: Any = -1) -> bytes:
        too_much = wire_format._BLOCK_BYTES
        return super().read(self._block if size == too_much else size)


def _again(wire: WireFile, end: int, large: int, apart: List[int]) -> bytes:
    parts = []
    for piece in wire.pieces(end, apart, large):
        parts.append(piece.data)
        if piece.field is not None:
            assert piece.field.length > large or piece.field.number in apart
            parts += [varint(piece.field.number << 3 | 2), varint(piece.field.length)]
            wire.skip(piece.field.length, parts.append)
    return b"".join(parts)


@example_share(0.4)
@given(graphs(), st.integers(1, 60), st.integers(0, 400), st.booleans(), st.booleans())
def test_pieces_are_the_message(
    graph_def: Any, block: int, large: int, is_sized: bool, is_apart: bool
) -> None:
    data = graph_def.SerializeToString()
    wire = WireFile(_Blocks(data, block), len(data) if is_sized else None)
    assert _again(wire, wire.end, large, [2] if is_apart else []) == data
    assert wire.position == len(data)


@example_share(0.4)
@given(graphs(), st.integers(1, 60), st.booleans(), st.data())
def test_a_message_is_whole_or_damaged(
    graph_def: Any, block: int, is_sized: bool, data: st.DataObject
) -> None:
    whole = graph_def.SerializeToString()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    wire = WireFile(_Blocks(cut, block), len(cut) if is_sized else None)
    try:
        read = _again(wire, wire.end, 50, [])
    except Damaged:
        return
    assert read == cut
    tf.GraphDef.FromString(cut)  # Was cut between two fields.


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x02\x01a", "numbered 0"),
        (b"\x0b\x00", "unknown kind"),
        (b"\x08" + b"\xff" * 11, "more than 64 bits"),
        (b"\x0a\xff\xff\xff\xff\x0f", "in the middle"),
    ],
)
def test_bytes_that_are_no_message_are_damaged(data: bytes, text: str) -> None:
    wire = WireFile(io.BytesIO(data), len(data))
    with pytest.raises(Damaged, match=text):
        list(wire.pieces(wire.end))


def test_what_protobuf_cannot_hold_is_not_read() -> None:
    data = b"\x0a" + varint(1 << 40) + b"abc"
    wire = WireFile(io.BytesIO(data), None)
    with pytest.raises(TooLarge, match="1099511627"):
        list(wire.pieces(wire.end))


def test_a_message_within_a_message_ends_where_it_says() -> None:
    inner = tf.NodeDef(name="n", op="NoOp").SerializeToString()
    data = b"\x0a" + varint(len(inner) - 1) + inner
    wire = WireFile(io.BytesIO(data), len(data))
    piece = wire.piece(wire.end, apart=(1,))
    assert piece is not None and piece.field is not None
    with pytest.raises(Damaged, match="in the middle"):
        list(wire.pieces(wire.position + piece.field.length))
