"""Graph files: every form is read back as written, every defect is one clear error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from graph_opt.compat import tf
from graph_opt.inspect.graph_files import GraphFile, read_graph, write_graph


@pytest.fixture
def graph_def() -> Any:
    table = tf.get_variable("table", [10, 4], use_resource=False)
    ids = tf.placeholder(tf.int64, [None], name="ids")
    tf.nn.embedding_lookup(table, ids, name="lookup")
    tf.constant(np.arange(300.0), name="numbers")
    return tf.get_default_graph().as_graph_def()


@pytest.mark.parametrize("ending", [".pb", ".pbtxt", ".txt", ".prototxt", ""])
def test_a_graph_is_read_back_as_written(tmp_path: Path, graph_def: Any, ending: str) -> None:
    path = tmp_path / ("graph" + ending)
    write_graph(graph_def, path)
    assert read_graph(path) == GraphFile(graph_def)
    first = path.read_bytes()
    write_graph(read_graph(path).graph_def, str(path))
    assert path.read_bytes() == first
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_content_decides_not_the_ending(tmp_path: Path, graph_def: Any) -> None:
    path = tmp_path / "graph.pb"
    path.write_text(text_format.MessageToString(graph_def))
    assert read_graph(path).graph_def == graph_def


def test_a_meta_graph_keeps_what_stands_beside_the_graph(tmp_path: Path, graph_def: Any) -> None:
    path = tmp_path / "model.ckpt.meta"
    tf.train.export_meta_graph(str(path))
    source = read_graph(path)
    assert source.meta_graph_def is not None
    assert source.graph_def == source.meta_graph_def.graph_def
    assert {node.name for node in source.graph_def.node} == {node.name for node in graph_def.node}
    write_graph(graph_def, tmp_path / "out.meta", like=source)
    written = read_graph(tmp_path / "out.meta")
    assert written.graph_def == graph_def
    assert written.meta_graph_def is not None
    assert written.meta_graph_def.collection_def == source.meta_graph_def.collection_def
    text = tmp_path / "meta.pbtxt"
    tf.train.export_meta_graph(str(text), as_text=True)
    assert read_graph(text).meta_graph_def == source.meta_graph_def


def test_a_meta_file_needs_one_to_start_from(tmp_path: Path, graph_def: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"out.meta: a .meta file needs"):
        write_graph(graph_def, tmp_path / "out.meta", like=GraphFile(graph_def))


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"none.pb: no such file"):
        read_graph(tmp_path / "none.pb")
    with pytest.raises(tf.errors.InvalidArgumentError, match="cannot be read: Is a directory"):
        read_graph(tmp_path)
    contents = {
        "empty.pb": (b"", "the file is empty"),
        "noise.pb": (bytes(range(256)) * 9, "neither a GraphDef nor a MetaGraphDef"),
        "code.py": (b"import os\nprint(os)\n", "code.py:1:1: truncated, or no text proto"),
        "blank.pbtxt": (b"\n\n", "the graph has no nodes"),
        "versions.pb": (tf.GraphDef(versions={"producer": 3}).SerializeToString(), "truncated, or"),
    }
    for name, (content, message) in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
            read_graph(tmp_path / name)
        assert name in caught.value.message and "\n" not in caught.value.message


def test_a_truncated_binary_file_is_an_error_at_every_length(
    tmp_path: Path, graph_def: Any
) -> None:
    whole = graph_def.SerializeToString()
    whole_nodes = set()
    partial = tf.GraphDef()
    for node in graph_def.node:
        partial.node.add().CopyFrom(node)
        whole_nodes.add(len(partial.SerializeToString()))
    path = tmp_path / "cut.pb"
    for length in range(0, len(whole) - 1, 7):
        if length in whole_nodes:
            continue  # A file cut between two nodes is a smaller graph to protobuf.
        path.write_bytes(whole[:length])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"cut.pb:"):
            read_graph(path)


def test_a_truncated_text_file_names_the_line(tmp_path: Path, graph_def: Any) -> None:
    path = tmp_path / "cut.pbtxt"
    path.write_text(text_format.MessageToString(graph_def)[:300])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"cut.pbtxt:\d+:\d+: truncated, or"):
        read_graph(path)


def test_a_file_that_cannot_be_written_leaves_nothing_behind(
    tmp_path: Path, graph_def: Any
) -> None:
    with pytest.raises(tf.errors.PermissionDeniedError, match=r"no/such/graph.pb: cannot be writt"):
        write_graph(graph_def, tmp_path / "no/such/graph.pb")
    (tmp_path / "folder").mkdir()
    with pytest.raises(tf.errors.PermissionDeniedError, match="folder: cannot be written"):
        write_graph(graph_def, tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
