"""GraphDefs in files: binary or text, bare or inside a MetaGraphDef or SavedModel."""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from dataclasses import dataclass
from typing import Any, BinaryIO, List, Optional, Sequence, Tuple, Union

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel
from graph_opt.inspect.graph_paths import graph_path
from graph_opt.inspect.text_messages import Progress, TextError, parse_text

Path = Union[str, "os.PathLike[str]"]

_TEXT_ENDINGS = (".pbtxt", ".txt", ".prototxt")
_META_TEXT = re.compile(rb"^\s*(meta_info_def|graph_def|saver_def|collection_def)\s*[:{]", re.M)
_SAVED_MODEL_TEXT = re.compile(rb"^\s*(saved_model_schema_version|meta_graphs)\s*[:{]", re.M)
_HEAD_BYTES = 1 << 16
_GZIP_START = b"\x1f\x8b"
_MOST_BYTES = (1 << 31) - 1  # The limit of protobuf messages.
# A SavedModel starts with its version, a number; a GraphDef or MetaGraphDef with a message.
_SAVED_MODEL_START = b"\x08"
_POSITION = re.compile(r"^(\d+):(\d+) : ")


@dataclass(frozen=True)
class GraphFile:
    """A graph as it was read.

    Attributes:
      graph_def: The graph.
      meta_graph_def: The message that it was in; None for a bare GraphDef.
    """

    graph_def: Any
    meta_graph_def: Optional[Any] = None


def read_graph(
    path: Path, tags: Optional[Sequence[str]] = None, progress: Optional[Progress] = None
) -> GraphFile:
    """Reads a graph, whose form is recognised by its content.

    Args:
      path: A GraphDef, MetaGraphDef or SavedModel, binary or text: `graph.pb`, `graph.pbtxt`,
        `model.ckpt-0.meta`, or packed by gzip. It may also be a SavedModel's folder, a folder of
        checkpoints or a checkpoint's prefix.
      tags: For a SavedModel with several graphs, the tags of the one to read.
      progress: Called now and then with the bytes read so far and the total.

    Returns:
      The graph, and the MetaGraphDef around it if there is one.

    Raises:
      tf.errors.NotFoundError: There is no such file, or no graph in the folder.
      tf.errors.PermissionDeniedError: There is no permission to read it.
      tf.errors.InvalidArgumentError: It is empty, truncated or not a graph, or needs `tags`.

    Example:
      >>> read_graph("graph.pbtxt").graph_def.node[0].op
      'Placeholder'
    """
    name = graph_path(os.fspath(path))
    message = _read_message(name, progress)
    if isinstance(message, SavedModel):
        message = _with_tags(name, list(message.meta_graphs), tags)
    elif tags is not None:
        raise _invalid("{}: only a SavedModel has tags".format(name))
    if isinstance(message, tf.GraphDef):
        graph = GraphFile(message)
    else:
        graph = GraphFile(message.graph_def, message)
    if not graph.graph_def.node:
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


def _read_message(name: str, progress: Optional[Progress]) -> Any:
    try:
        with open(name, "rb") as opened:
            file: BinaryIO = opened
            head = file.read(_HEAD_BYTES)
            if not head:
                raise _invalid("{}: the file is empty".format(name))
            if head.startswith(_GZIP_START):
                packed = file if file.seekable() else io.BytesIO(head + file.read())
                file, head = _unpacked(name, packed)
            if not _is_text(head):
                return _parse_binary(name, head + file.read())
            text: BinaryIO = file if file.seekable() else io.BytesIO(head + file.read())
            return parse_text(text, _empty_message(head), progress)
    except TextError as error:
        raise _invalid(_no_text_proto(name, error)) from error
    except FileNotFoundError as error:
        raise tf.errors.NotFoundError(None, None, "{}: no such file".format(name)) from error
    except PermissionError as error:
        raise tf.errors.PermissionDeniedError(
            None, None, "{}: permission to read denied".format(name)
        ) from error
    except OSError as error:
        raise _invalid("{}: cannot be read: {}".format(name, error.strerror)) from error


def _unpacked(name: str, packed: BinaryIO) -> Tuple[BinaryIO, bytes]:
    """What a gzip file holds, after its beginning, and that beginning."""
    packed.seek(0)
    try:
        with gzip.GzipFile(fileobj=packed) as file:
            data = file.read(_MOST_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        raise _invalid("{}: truncated or damaged: {}".format(name, error)) from error
    if len(data) > _MOST_BYTES:
        raise _invalid("{}: holds more than 2 GiB, which no graph has".format(name))
    unpacked = io.BytesIO(data)
    return unpacked, unpacked.read(_HEAD_BYTES)


def _with_tags(name: str, graphs: List[Any], tags: Optional[Sequence[str]]) -> Any:
    found = [sorted(graph.meta_info_def.tags) for graph in graphs]
    if tags is not None:
        wanted = [i for i, has in enumerate(found) if has == sorted(tags)]
    else:
        wanted = list(range(len(graphs)))
    if len(wanted) == 1:
        return graphs[wanted[0]]
    raise _invalid(
        "{}: the SavedModel has {}: choose one by its tags (--tags)".format(
            name,
            "graphs tagged " + " / ".join(",".join(has) or "(none)" for has in found)
            if graphs
            else "no graph",
        )
    )


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


def _parse_binary(name: str, data: bytes) -> Any:
    if data.startswith(_SAVED_MODEL_START):
        saved_model = _decoded(SavedModel(), data)
        if saved_model is not None and saved_model.meta_graphs:
            return saved_model
    graph_def = _decoded(tf.GraphDef(), data)
    if graph_def is not None and _is_plausible(graph_def):
        return graph_def
    meta = _decoded(tf.MetaGraphDef(), data)
    if meta is not None and _is_plausible(meta.graph_def):
        return meta
    raise _invalid(
        "{}: truncated, or neither a GraphDef nor a MetaGraphDef nor a SavedModel".format(name)
    )


def _decoded(message: Any, data: bytes) -> Optional[Any]:
    try:
        message.ParseFromString(data)
    except (DecodeError, UnicodeDecodeError):
        return None
    return message


def _is_plausible(graph_def: Any) -> bool:
    # Protobuf accepts many bytes that are no graph; nodes without name or op reveal them.
    return bool(graph_def.node) and all(node.name and node.op for node in graph_def.node)


def _invalid(message: str) -> Exception:
    return tf.errors.InvalidArgumentError(None, None, message)
