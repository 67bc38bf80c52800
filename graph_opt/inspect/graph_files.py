"""GraphDefs in files: binary or text, bare or inside a MetaGraphDef or SavedModel."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel
from graph_opt.inspect.binary_graphs import (
    BinaryGraph,
    Unreadable,
    read_graph_def,
    read_meta_graph,
    read_saved_model_places,
)
from graph_opt.inspect.graph_parts import EVERYTHING, GraphParts, Limits, NotAGraph
from graph_opt.inspect.graph_paths import graph_path
from graph_opt.inspect.opened_files import OpenedFile, Progress, Unusable, is_onnx, opened
from graph_opt.inspect.text_messages import TextError, parse_text
from graph_opt.inspect.wire_format import TooLarge, WireFile
from graph_opt.reporting.counted_graph import CountedGraph
from graph_opt.reporting.tables import counted
from graph_opt.saved_models.graphs import graph_tags, place_with

Path = Union[str, "os.PathLike[str]"]

_TEXT_ENDINGS = (".pbtxt", ".txt", ".prototxt")
_META_TEXT = re.compile(rb"^\s*(meta_info_def|graph_def|saver_def|collection_def)\s*[:{]", re.M)
_SAVED_MODEL_TEXT = re.compile(rb"^\s*(saved_model_schema_version|meta_graphs)\s*[:{]", re.M)
_POSITION = re.compile(r"^(\d+):(\d+) : ")


@dataclass(frozen=True)
class GraphFile:
    """A graph as it was read.

    Attributes:
      graph_def: The graph.
      meta_graph_def: The message that it was in; None for a bare GraphDef.
      counted: What is known of a graph beyond the limits, whose `graph_def` is empty.
    """

    graph_def: Any
    meta_graph_def: Optional[Any] = None
    counted: Optional[CountedGraph] = None


def read_graph(
    path: Path,
    tags: Optional[Sequence[str]] = None,
    progress: Optional[Progress] = None,
    limits: Limits = EVERYTHING,
    preferred: str = "",
) -> GraphFile:
    """Reads a graph, whose form is recognised by its content.

    Args:
      path: A GraphDef, MetaGraphDef or SavedModel, binary or text: `graph.pb`, `graph.pbtxt`,
        `model.ckpt-0.meta`, or packed by gzip; `-` is standard input. It may also be a
        SavedModel's folder, a folder of checkpoints or a checkpoint's prefix.
      tags: For a SavedModel with several graphs, the tags of the one to read.
      progress: Called now and then with the bytes read so far and the total.
      limits: How much is kept; by default all, up to the 2 GiB of a protobuf message.
      preferred: A tag: without `tags`, the only one of several graphs that has it is read.

    Returns:
      The graph, and the MetaGraphDef around it if there is one. Nodes whose values were left out
      have the attribute `_elided_bytes`.

    Raises:
      tf.errors.NotFoundError: There is no such file, or no graph in the folder.
      tf.errors.PermissionDeniedError: There is no permission to read it.
      tf.errors.InvalidArgumentError: It is empty, truncated or not a graph, or needs `tags`.

    Example:
      >>> read_graph("graph.pbtxt").graph_def.node[0].op
      'Placeholder'
    """
    name = graph_path(os.fspath(path))
    graph = _read(name, _Wanted(tags, preferred), limits, progress)
    if not graph.graph_def.node and graph.counted is None:
        raise _invalid("{}: the graph has no nodes".format(name))
    return graph


def write_graph(graph_def: Any, path: Path, like: Optional[GraphFile] = None) -> None:
    """Writes a graph in the form that the file's ending asks for, as a whole or not at all.

    Args:
      graph_def: The GraphDef to write.
      path: `.pbtxt`, `.txt` and `.prototxt` are text, `.meta` is a binary MetaGraphDef, all
        others are binary GraphDefs. The same graph gives the same bytes.
      like: The file that the graph came from. A `.meta` file takes everything except the graph
        (collections, saver) from there.

    Raises:
      tf.errors.InvalidArgumentError: A `.meta` file is asked for, but `like` is not one.
      tf.errors.PermissionDeniedError: The file cannot be written.
    """
    name = os.fspath(path)
    message = graph_def
    if name.endswith(".meta"):
        message = _meta_graph(name, graph_def, like)
    if name.endswith(_TEXT_ENDINGS):
        data = text_format.MessageToString(message).encode("utf-8")
    else:
        data = message.SerializeToString(deterministic=True)
    _write_whole(name, data)


def write_text(text: str, path: Path) -> None:
    """Writes a text file as a whole or not at all.

    Raises:
      tf.errors.PermissionDeniedError: The file cannot be written.
    """
    _write_whole(os.fspath(path), text.encode("utf-8"))


def _meta_graph(name: str, graph_def: Any, like: Optional[GraphFile]) -> Any:
    if like is None or like.meta_graph_def is None:
        raise _invalid(
            "{}: a .meta file can only be made from a .meta file; write .pb or .pbtxt".format(name)
        )
    meta = tf.MetaGraphDef()
    meta.CopyFrom(like.meta_graph_def)
    meta.graph_def.CopyFrom(graph_def)
    return meta


class _Wanted(NamedTuple):
    """Which graph of a SavedModel to read."""

    tags: Optional[Sequence[str]]
    preferred: str


def _read(name: str, wanted: _Wanted, limits: Limits, progress: Optional[Progress]) -> GraphFile:
    try:
        with opened(name, progress) as file:
            if _is_text(file.head):
                return _read_text(name, file, wanted, limits, progress)
            return _read_binary(name, file, wanted, limits)
    except Unusable as error:
        raise _invalid("{}: {}".format(name, error)) from error
    except TooLarge as error:
        raise tf.errors.ResourceExhaustedError(
            None,
            None,
            "{}: has {}, and protobuf reads and writes 2 GiB at most: graph-opt inspect shows the "
            "graph without it".format(name, error),
        ) from error
    except TextError as error:
        raise _invalid(_no_text_proto(name, error)) from error
    except NotAGraph as error:
        raise _invalid("{}: truncated, or not a GraphDef: {}".format(name, error)) from error
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, "{}: no such file".format(name)) from error
    except PermissionError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: permission to read denied".format(name)
        ) from error
    except OSError as error:
        raise _invalid("{}: cannot be read: {}".format(name, error.strerror)) from error


def _read_text(
    name: str,
    file: OpenedFile,
    wanted: _Wanted,
    limits: Limits,
    progress: Optional[Progress],
) -> GraphFile:
    message = _empty_message(file.head)
    if isinstance(message, tf.GraphDef):
        _refuse_tags(name, wanted)
        parts = GraphParts(message, limits)
        message = parse_text(file.file, message, progress, parts)
        return GraphFile(message, None, parts.counted)
    message = parse_text(file.file, message, progress)
    if isinstance(message, SavedModel):
        found = [graph_tags(graph) for graph in message.meta_graphs]
        message = message.meta_graphs[place_with(found, wanted.tags, name, wanted.preferred)]
    else:
        _refuse_tags(name, wanted)
    parts = GraphParts(message.graph_def, limits)
    parts.note_added()
    return GraphFile(parts.graph_def, message, parts.counted)


def _read_binary(name: str, file: OpenedFile, wanted: _Wanted, limits: Limits) -> GraphFile:
    wire = WireFile(file.file, file.size, file.progress)
    places = read_saved_model_places(wire, file.head)
    if places:
        found = [place.tags for place in places]
        place = places[place_with(found, wanted.tags, name, wanted.preferred)]
        return _graph(name, [lambda: read_meta_graph(wire, place.start, place.end, limits)])
    _refuse_tags(name, wanted)
    read = [
        lambda: read_graph_def(wire, limits),
        lambda: read_meta_graph(wire, 0, wire.end, limits),
    ]
    try:
        return _graph(name, read)
    except tf.errors.InvalidArgumentError:
        if is_onnx(file.head):
            raise Unusable("it is an ONNX model, not a graph of TensorFlow") from None
        raise


def _graph(name: str, forms: Sequence[Callable[[], BinaryGraph]]) -> GraphFile:
    """The graph in the first of the forms that the file may have."""
    failures = []
    for read in forms:
        try:
            return GraphFile(*read())
        except Unreadable as failure:
            failures.append(failure)
    furthest = max(failures, key=lambda failure: failure.nodes)
    text = "{}: truncated, or neither a GraphDef nor a MetaGraphDef nor a SavedModel".format(name)
    if furthest.nodes:
        text = "{}: truncated or damaged behind {}: {}".format(
            name, counted(furthest.nodes, "whole node"), furthest
        )
    raise _invalid(text) from furthest


def _refuse_tags(name: str, wanted: _Wanted) -> None:
    if wanted.tags is not None:
        raise _invalid("{}: only a SavedModel has tags".format(name))


def _write_whole(name: str, data: bytes) -> None:
    partial = "{}.partial-{}".format(name, os.getpid())
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, name)
    except OSError as error:
        if os.path.exists(partial):
            os.remove(partial)
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: cannot be written: {}".format(name, error.strerror)
        ) from error


def _is_text(head: bytes) -> bool:
    """Whether a file starts like text: binary protos contain control characters."""
    try:
        # The last character may be cut off in the middle.
        text = head[:4096].decode("utf-8", errors="strict" if len(head) < 4096 else "ignore")
    except UnicodeDecodeError:
        return False
    return all(character.isprintable() or character in "\t\n\r" for character in text)


def _empty_message(head: bytes) -> Any:
    if _SAVED_MODEL_TEXT.search(head) is not None:
        return SavedModel()
    return tf.MetaGraphDef() if _META_TEXT.search(head) is not None else tf.GraphDef()


def _no_text_proto(name: str, error: TextError) -> str:
    # The parser's message may repeat a whole line of the file: one line of limited length will do.
    detail = _POSITION.sub("", str(error).replace("\n", " "))[:200]
    where = "".join(":{}".format(part) for part in (error.line, error.column) if part is not None)
    return "{}{}: truncated, or not a text proto of a GraphDef: {}".format(name, where, detail)


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
