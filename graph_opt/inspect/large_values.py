"""Messages from a file without their large values: tensors, strings and packed numbers."""

from __future__ import annotations

import hashlib
import io
from typing import Any, List, Tuple

from graph_opt.compat import tf
from graph_opt.compat.varint import varint
from graph_opt.graph.elided_values import ELIDED, ELIDED_DIGEST, is_elided
from graph_opt.inspect.wire_format import Damaged, Field, WireFile
from graph_opt.reporting.tables import bytes_text, counted

_Tensor = type(tf.AttrValue().tensor)
LARGE_VALUE_BYTES = 1 << 20
"""Bytes above which values are left out of what people are shown."""
_MOST_NAMED = 3
_MOST_CHARACTERS = 200
_MOST_DEEP = 100  # As deep as protobuf reads.


class ElidedBytes:
    """What was left out of a node.

    Attributes:
      size: How many bytes.
    """

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()

    def add(self, data: bytes) -> None:
        """Notes bytes that are left out."""
        self.size += len(data)
        self._digest.update(data)

    def mark(self, node: Any) -> None:
        """Notes in a NodeDef what it has lost, if anything."""
        if self.size:
            node.attr[ELIDED].i = self.size
            node.attr[ELIDED_DIGEST].s = self._digest.hexdigest().encode("ascii")


def shortened_field(
    wire: WireFile, descriptor: Any, field: Field, large: int, elided: ElidedBytes, depth: int = 0
) -> bytes:
    """Reads a field that is too large to be read as it is.

    Of a tensor that is too large, dtype and shape are left; other strings and packed numbers are
    left out where one alone is too large.

    Args:
      wire: A file, at the field's value.
      descriptor: Of the message that has the field.
      field: The field.
      large: Bytes above which values are left out.
      elided: Is told what is left out.
      depth: How many messages the field is in.

    Returns:
      The field in wire format, with its tag; b"" if it is left out itself.

    Raises:
      Damaged: The bytes are no message in wire format.
      google.protobuf.message.DecodeError: They are no such message.
    """
    declared = descriptor.fields_by_number.get(field.number)
    if declared is None or declared.message_type is None:
        wire.skip(field.length, elided.add)
        return b""
    if depth > _MOST_DEEP:
        raise Damaged("it has messages in messages, more than {} deep".format(_MOST_DEEP))
    end = wire.position + field.length
    if declared.message_type.full_name == _Tensor.DESCRIPTOR.full_name:
        value = _without_values(wire, end, large, elided)
    else:
        value = _shortened(wire, declared.message_type, end, large, elided, depth + 1)
    return varint(field.number << 3 | 2) + varint(len(value)) + value


def shortened_node(node: Any, large: int) -> None:
    """Leaves out the large values of a NodeDef that is in memory."""
    data = node.SerializeToString()
    elided = ElidedBytes()
    wire = WireFile(io.BytesIO(data), len(data))
    node.ParseFromString(_shortened(wire, node.DESCRIPTOR, len(data), large, elided, 0))
    elided.mark(node)


def elided_warnings(graph_def: Any) -> Tuple[str, ...]:
    """A line about the nodes of a graph that have lost values, if there are any."""
    sizes = {node.name: node.attr[ELIDED].i for node in graph_def.node if is_elided(node)}
    if not sizes:
        return ()
    largest = sorted(sizes, key=lambda name: -sizes[name])[:_MOST_NAMED]
    named = [
        "'{}' ({})".format(name[:_MOST_CHARACTERS], bytes_text(sizes[name])) for name in largest
    ]
    if len(sizes) > len(named):
        named.append("...")
    text = "values of {} were left out, {} in all, and are taken as unknown: {}".format(
        counted(len(sizes), "node"), bytes_text(sum(sizes.values())), ", ".join(named)
    )
    return (text,)


def _shortened(
    wire: WireFile, descriptor: Any, end: int, large: int, elided: ElidedBytes, depth: int
) -> bytes:
    parts: List[bytes] = []
    for piece in wire.pieces(end, large=large):
        parts.append(piece.data)
        if piece.field is not None:
            parts.append(shortened_field(wire, descriptor, piece.field, large, elided, depth))
    return b"".join(parts)


def _without_values(wire: WireFile, end: int, large: int, elided: ElidedBytes) -> bytes:
    """A tensor's dtype and shape."""
    kept = _Tensor()
    for piece in wire.pieces(end, large=large):
        part = _Tensor.FromString(piece.data)
        kept.MergeFrom(_Tensor(dtype=part.dtype, tensor_shape=part.tensor_shape))
        part.ClearField("dtype")
        part.ClearField("tensor_shape")
        elided.add(part.SerializeToString())
        if piece.field is not None:
            wire.skip(piece.field.length, elided.add)
    return kept.SerializeToString()
