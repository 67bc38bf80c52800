"""GraphDefs in files: binary or text, bare or within a MetaGraphDef."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Union

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graph_opt.compat import tf

Path = Union[str, "os.PathLike[str]"]

_TEXT_ENDINGS = (".pbtxt", ".txt", ".prototxt")
_META_TEXT = re.compile(r"^\s*(meta_info_def|graph_def|saver_def|collection_def)\s*[:{]", re.M)
_POSITION = re.compile(r"^(\d+):(\d+) : ")


@dataclass(frozen=True)
class GraphFile:
    """A graph as it was read.

    Attributes:
      graph_def: The graph.
      meta_graph_def: What it was read out of, None for a bare GraphDef.
    """

    graph_def: Any
    meta_graph_def: Optional[Any] = None


def read_graph(path: Path) -> GraphFile:
    """Reads a GraphDef or MetaGraphDef, binary or text; the content decides which.

    Args:
      path: For example `graph.pb`, `graph.pbtxt` or a checkpoint's `model.ckpt-0.meta`.

    Returns:
      The graph, and the MetaGraphDef around it if there was one.

    Raises:
      tf.errors.NotFoundError: There is no such file.
      tf.errors.PermissionDeniedError: It may not be read.
      tf.errors.InvalidArgumentError: It is empty, truncated or no graph.

    Example:
      >>> read_graph("graph.pbtxt").graph_def.node[0].op
      'Placeholder'
    """
    name = os.fspath(path)
    data = _read_bytes(name)
    if not data:
        raise _invalid("{}: the file is empty".format(name))
    text = _as_text(data)
    graph = _parse_binary(name, data) if text is None else _parse_text(name, text)
    if not graph.graph_def.node:
        raise _invalid("{}: the graph has no nodes".format(name))
    return graph


def write_graph(graph_def: Any, path: Path, like: Optional[GraphFile] = None) -> None:
    """Writes a graph; the ending decides how. The file appears whole or not at all.

    Args:
      graph_def: The GraphDef to write.
      path: `.pbtxt`, `.txt` and `.prototxt` are text, `.meta` is a binary MetaGraphDef, all
        others are binary GraphDefs. The same graph gives the same bytes.
      like: The file the graph stems from. A `.meta` file takes everything beside the graph
        (collections, saver) from there.

    Raises:
      tf.errors.InvalidArgumentError: A `.meta` file is asked for, but `like` is none.
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
    """Writes a text file whole or not at all.

    Raises:
      tf.errors.PermissionDeniedError: The file cannot be written.
    """
    _write_whole(os.fspath(path), text.encode("utf-8"))


def _meta_graph(name: str, graph_def: Any, like: Optional[GraphFile]) -> Any:
    if like is None or like.meta_graph_def is None:
        raise _invalid(
            "{}: a .meta file needs a .meta file to start from; write .pb or .pbtxt".format(name)
        )
    meta = tf.MetaGraphDef()
    meta.CopyFrom(like.meta_graph_def)
    meta.graph_def.CopyFrom(graph_def)
    return meta


def _read_bytes(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, "{}: no such file".format(name)) from error
    except PermissionError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: permission to read denied".format(name)
        ) from error
    except OSError as error:
        raise _invalid("{}: cannot be read: {}".format(name, error.strerror)) from error


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


def _as_text(data: bytes) -> Optional[str]:
    """The file's text, None where it cannot be one: binary protos hold control characters."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    start = text[:4096]
    if all(character.isprintable() or character in "\t\n\r" for character in start):
        return text
    return None


def _parse_text(name: str, text: str) -> GraphFile:
    is_meta = _META_TEXT.search(text) is not None
    message = tf.MetaGraphDef() if is_meta else tf.GraphDef()
    try:
        text_format.Parse(text, message)
    except text_format.ParseError as error:
        # The parser's own text may repeat a whole line of the file: one bounded line is enough.
        detail = str(error).replace("\n", " ")
        position = _POSITION.match(detail)
        where = ":{}:{}".format(*position.groups()) if position else ""
        raise _invalid(
            "{}{}: truncated, or no text proto of a GraphDef: {}".format(
                name, where, _POSITION.sub("", detail)[:200]
            )
        ) from error
    return GraphFile(message.graph_def, message) if is_meta else GraphFile(message)


def _parse_binary(name: str, data: bytes) -> GraphFile:
    graph_def = _decoded(tf.GraphDef(), data)
    if graph_def is not None and _is_plausible(graph_def):
        return GraphFile(graph_def)
    meta = _decoded(tf.MetaGraphDef(), data)
    if meta is not None and _is_plausible(meta.graph_def):
        return GraphFile(meta.graph_def, meta)
    raise _invalid("{}: truncated, or neither a GraphDef nor a MetaGraphDef".format(name))


def _decoded(message: Any, data: bytes) -> Optional[Any]:
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError):
        return None
    return message


def _is_plausible(graph_def: Any) -> bool:
    # Protobuf reads many foreign bytes without complaint; nodes without name or op tell.
    return bool(graph_def.node) and all(node.name and node.op for node in graph_def.node)


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
