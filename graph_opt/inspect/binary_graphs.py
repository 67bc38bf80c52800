"""GraphDefs, MetaGraphDefs and SavedModels of any size in binary form, read in parts."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

from google.protobuf.message import DecodeError

from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel
from graph_opt.inspect.graph_parts import GraphParts, Limits, NotAGraph
from graph_opt.inspect.large_values import ElidedBytes, shortened_field
from graph_opt.inspect.wire_format import Damaged, Field, WireFile
from graph_opt.reporting.counted_graph import CountedGraph


def _number(message: Any, name: str) -> int:
    number: int = message.DESCRIPTOR.fields_by_name[name].number
    return number


_LIBRARY = tf.GraphDef().library
_Function = type(_LIBRARY.function.add())
_NODE = _number(tf.GraphDef, "node")
_LIBRARY_NUMBER = _number(tf.GraphDef, "library")
_FUNCTION = _number(_LIBRARY, "function")
_NODE_OF_FUNCTION = _number(_Function, "node_def")
_META_GRAPHS = _number(SavedModel, "meta_graphs")
_META_INFO = _number(tf.MetaGraphDef, "meta_info_def")
_GRAPH = _number(tf.MetaGraphDef, "graph_def")
# A SavedModel starts with its version, a number; a GraphDef or MetaGraphDef with a message.
_SAVED_MODEL_START = b"\x08"


class BinaryGraph(NamedTuple):
    """What was read.

    Attributes:
      graph_def: The graph; empty if it was only counted.
      meta_graph_def: The message that has it; None for a bare GraphDef.
      counted: What is known of a graph beyond the limits.
    """

    graph_def: Any
    meta_graph_def: Optional[Any]
    counted: Optional[CountedGraph]


class MetaGraphPlace(NamedTuple):
    """One of the graphs of a SavedModel.

    Attributes:
      start: Where its MetaGraphDef begins in the file.
      end: Where it ends.
      tags: Its tags, in order.
    """

    start: int
    end: int
    tags: Sequence[str]


class Unreadable(ValueError):
    """The file is no graph, or ends too early.

    Attributes:
      nodes: How many nodes were read before.
    """

    def __init__(self, text: str, nodes: int = 0) -> None:
        super().__init__(text)
        self.nodes = nodes


def read_saved_model_places(wire: WireFile, head: bytes) -> List[MetaGraphPlace]:
    """Where the graphs of a SavedModel are; none if the file is no SavedModel.

    Args:
      wire: The file, which is read to its end.
      head: Its first bytes.
    """
    places: List[MetaGraphPlace] = []
    if not head.startswith(_SAVED_MODEL_START):
        return places
    wire.seek(0)
    try:
        for piece in wire.pieces(wire.end, apart=(_META_GRAPHS,), large=0):
            if piece.field is None:
                continue
            end = wire.position + piece.field.length
            if piece.field.number == _META_GRAPHS:
                places.append(MetaGraphPlace(wire.position, end, _tags(wire, end)))
            else:
                wire.skip(piece.field.length)
    except (Damaged, DecodeError):
        return []
    return places


def _tags(wire: WireFile, end: int) -> Sequence[str]:
    """The tags of the MetaGraphDef that the file is at; goes to its end."""
    info = tf.MetaGraphDef().meta_info_def
    for piece in wire.pieces(end, apart=(_META_INFO,), large=0):
        if piece.field is None:
            continue
        within = wire.position + piece.field.length
        if piece.field.number != _META_INFO:
            wire.skip(piece.field.length)
            continue
        for part in wire.pieces(within):
            info.MergeFromString(part.data)
    return sorted(info.tags)


def read_meta_graph(wire: WireFile, start: int, end: int, limits: Limits) -> BinaryGraph:
    """Reads a MetaGraphDef.

    Raises:
      Unreadable: The bytes are none, or end in its middle.
    """
    meta = tf.MetaGraphDef()
    parts = GraphParts(meta.graph_def, limits)

    def read() -> None:
        for piece in wire.pieces(end, apart=(_GRAPH,), large=parts.large):
            meta.MergeFromString(piece.data)
            if piece.field is None:
                continue
            if piece.field.number == _GRAPH:
                _read_graph(wire, wire.position + piece.field.length, parts)
            else:
                meta.MergeFromString(_shortened(wire, meta.DESCRIPTOR, piece.field, parts))

    wire.seek(start)
    _reading(read, parts)
    return BinaryGraph(parts.graph_def, meta, parts.counted)


def read_graph_def(wire: WireFile, limits: Limits) -> BinaryGraph:
    """Reads a file that is a GraphDef.

    Raises:
      Unreadable: It is none, or ends in its middle.
    """
    parts = GraphParts(tf.GraphDef(), limits)
    wire.seek(0)
    _reading(lambda: _read_graph(wire, wire.end, parts), parts)
    return BinaryGraph(parts.graph_def, None, parts.counted)


def _reading(read: Any, parts: GraphParts) -> None:
    try:
        read()
    except (Damaged, DecodeError, NotAGraph, UnicodeDecodeError) as error:
        text = str(error) if isinstance(error, (Damaged, NotAGraph)) else "what follows is no node"
        raise Unreadable(text, parts.nodes) from error
    if not parts.nodes:
        raise Unreadable("it has no nodes")


def _read_graph(wire: WireFile, end: int, parts: GraphParts) -> None:
    descriptor = parts.graph_def.DESCRIPTOR
    while wire.position < end:
        piece = wire.piece(end, apart=(_LIBRARY_NUMBER,), large=parts.large)
        if piece is None:
            return
        parts.add(piece.data)
        if piece.field is None:
            continue
        if piece.field.number == _LIBRARY_NUMBER:
            _read_library(wire, wire.position + piece.field.length, parts)
        elif piece.field.number == _NODE:
            parts.add_node(_node(wire, tf.GraphDef.DESCRIPTOR, piece.field, parts))
        else:
            parts.add(_shortened(wire, descriptor, piece.field, parts))


def _read_library(wire: WireFile, end: int, parts: GraphParts) -> None:
    while wire.position < end:
        piece = wire.piece(end, large=parts.large)
        if piece is None:
            return
        parts.add_functions(piece.data)
        if piece.field is None:
            continue
        if piece.field.number == _FUNCTION:
            parts.add_function(_read_function(wire, wire.position + piece.field.length, parts))
        else:
            parts.add_functions(_shortened(wire, _LIBRARY.DESCRIPTOR, piece.field, parts))


def _read_function(wire: WireFile, end: int, parts: GraphParts) -> Any:
    """A function of many nodes, or with a large value."""
    function, size = _Function(), 0
    for piece in wire.pieces(end, large=parts.large):
        function.MergeFromString(piece.data)
        size += len(piece.data)
        function = parts.relieved(function, size)
        if piece.field is None:
            continue
        if piece.field.number == _NODE_OF_FUNCTION:
            function.node_def.append(_node(wire, _Function.DESCRIPTOR, piece.field, parts))
        else:
            function.MergeFromString(_shortened(wire, _Function.DESCRIPTOR, piece.field, parts))
    return function


def _node(wire: WireFile, descriptor: Any, field: Field, parts: GraphParts) -> Any:
    """A node without its large values, marked with what it has lost."""
    elided = ElidedBytes()
    data = shortened_field(wire, descriptor, field, parts.large, elided)
    message = tf.GraphDef() if descriptor is tf.GraphDef.DESCRIPTOR else _Function()
    message.MergeFromString(data)
    node = message.node[0] if isinstance(message, tf.GraphDef) else message.node_def[0]
    elided.mark(node)
    return node


def _shortened(wire: WireFile, descriptor: Any, field: Field, parts: GraphParts) -> bytes:
    return shortened_field(wire, descriptor, field, parts.large, ElidedBytes())
