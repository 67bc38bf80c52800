"""Graph files: every format is read back as written, every defect gives one clear error."""

from __future__ import annotations

import gzip
import io
import os
import threading
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from graph_opt.compat import tf
from graph_opt.inspect import opened_files
from graph_opt.inspect.graph_files import GraphFile, read_graph, write_graph


def zipped(content: bytes) -> bytes:
    """Packed by gzip, to the same bytes at any time."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(content)
    return packed.getvalue()


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


def test_the_content_decides_not_the_file_extension(tmp_path: Path, graph_def: Any) -> None:
    path = tmp_path / "graph.pb"
    path.write_text(text_format.MessageToString(graph_def))
    assert read_graph(path).graph_def == graph_def


@pytest.mark.parametrize("ending", [".pb", ".pbtxt", ".meta"])
def test_a_file_packed_by_gzip_is_read_like_any_other(
    tmp_path: Path, graph_def: Any, ending: str
) -> None:
    path = tmp_path / ("graph" + ending)
    tf.train.export_meta_graph(str(path)) if ending == ".meta" else write_graph(graph_def, path)
    packed = tmp_path / (path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_graph(packed) == read_graph(path)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(tf.errors.InvalidArgumentError, match="truncated or damaged"):
        read_graph(packed)
    packed.write_bytes(b"\x1f\x8bnot gzip")
    with pytest.raises(tf.errors.InvalidArgumentError, match="truncated or damaged"):
        read_graph(packed)


def test_a_packed_file_beyond_the_limit_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = tmp_path / "graph.pb.gz"
    packed.write_bytes(gzip.compress(bytes(100_000)))
    monkeypatch.setattr(opened_files, "_MOST_UNPACKED_BYTES", 99_999)
    with pytest.raises(tf.errors.InvalidArgumentError, match="it holds more than 97"):
        read_graph(packed)


def test_a_meta_graph_keeps_what_accompanies_the_graph(tmp_path: Path, graph_def: Any) -> None:
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


def _export(folder: Path, tag_sets: List[List[str]]) -> None:
    builder = tf.saved_model.Builder(str(folder))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, tag_sets[0])
        for tags in tag_sets[1:]:
            builder.add_meta_graph(tags)
    saved = SavedModel.FromString(Path(tf.compat.as_str(builder.save())).read_bytes())
    # Not by the builder: protobuf 5.29 writes a quote in bytes as if it ended them.
    (folder / "saved_model.pbtxt").write_text(text_format.MessageToString(saved))


def test_a_saved_model_is_read_by_its_folder_or_its_file(tmp_path: Path, graph_def: Any) -> None:
    folder = tmp_path / "model"
    _export(folder, [["serve"]])
    names = {node.name for node in graph_def.node}
    texts = tmp_path / "texts"
    texts.mkdir()
    (folder / "saved_model.pbtxt").rename(texts / "saved_model.pbtxt")
    for path in (folder, folder / "saved_model.pb", texts, texts / "saved_model.pbtxt"):
        source = read_graph(path)
        assert names <= {node.name for node in source.graph_def.node}
        assert source.meta_graph_def is not None
        assert list(source.meta_graph_def.meta_info_def.tags) == ["serve"]
    write_graph(source.graph_def, tmp_path / "out.meta", like=source)
    assert read_graph(tmp_path / "out.meta").graph_def == source.graph_def


def test_of_several_graphs_in_a_saved_model_one_is_chosen_by_its_tags(
    tmp_path: Path, graph_def: Any
) -> None:
    _export(tmp_path / "model", [["train"], ["serve", "gpu"]])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tagged train / gpu,serve: .*--tags"):
        read_graph(tmp_path / "model")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"tagged train / gpu,serve: .*--tags"):
        read_graph(tmp_path / "model", tags=["serve"])
    meta_graph_def = read_graph(tmp_path / "model", tags=["serve", "gpu"]).meta_graph_def
    assert meta_graph_def is not None
    assert sorted(meta_graph_def.meta_info_def.tags) == ["gpu", "serve"]
    write_graph(graph_def, tmp_path / "graph.pb")
    with pytest.raises(tf.errors.InvalidArgumentError, match="only a SavedModel has tags"):
        read_graph(tmp_path / "graph.pb", tags=["serve"])


def test_a_checkpoint_is_read_by_its_folder_its_prefix_or_any_of_its_files(
    tmp_path: Path, graph_def: Any
) -> None:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), global_step=7)
    expected = read_graph(prefix + ".meta")
    for path in [str(tmp_path), prefix, *map(str, tmp_path.glob("model.ckpt*"))]:
        assert read_graph(path) == expected
    Path(prefix + ".meta").unlink()
    for path in (str(tmp_path), prefix, prefix + ".index"):
        with pytest.raises(tf.errors.NotFoundError, match=r"7: the checkpoint has no graph"):
            read_graph(path)


@pytest.mark.slow
def test_large_texts_are_read_like_small_ones(tmp_path: Path, graph_def: Any) -> None:
    for number in range(30):
        node = graph_def.node.add(name="c{}".format(number), op="Const")
        values = tf.make_tensor_proto(np.full([50_000], number + 0.5))
        node.attr["value"].tensor.CopyFrom(values)
        node.attr["note"].s = "}\n\u00e4".encode()
    meta = tf.MetaGraphDef(graph_def=graph_def)
    meta.collection_def["c"].node_list.value.append("}")
    text = text_format.MessageToString(graph_def)
    assert len(text) > 8 << 20  # Several pieces.
    path, read = tmp_path / "large.pbtxt", []
    path.write_text(text)
    assert read_graph(path, progress=lambda *part: read.append(part)).graph_def == graph_def
    assert len(read) > 1 and read[-1] == (len(text), len(text))
    path.write_text("\n".join(line.strip() for line in text.splitlines()))
    assert read_graph(path).graph_def == graph_def  # Has no layout by which to cut it into pieces.
    path.write_text(text_format.MessageToString(meta))
    assert read_graph(path).meta_graph_def == meta


def test_an_error_in_a_large_text_is_one_line_with_its_position(
    tmp_path: Path, graph_def: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    for number in range(30):
        node = graph_def.node.add(name="c{}".format(number), op="Const")
        node.attr["value"].s = b"\1" * 100_000
    lines = text_format.MessageToString(graph_def).splitlines()
    lines.insert(len(lines) - 2, "  no_such_field: 1")
    path = tmp_path / "large.pbtxt"
    path.write_text("\n".join(lines))
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        read_graph(path)
    position = "large.pbtxt:{}:3: ".format(len(lines) - 2)
    assert position + "truncated, or not a text" in caught.value.message
    assert "no_such_field" in caught.value.message
    assert capfd.readouterr().err == ""


def test_a_meta_file_can_only_be_written_from_one(tmp_path: Path, graph_def: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"out.meta: a .meta file can only"):
        write_graph(graph_def, tmp_path / "out.meta", like=GraphFile(graph_def))


def test_missing_empty_and_foreign_files(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"none.pb: no such file"):
        read_graph(tmp_path / "none.pb")
    with pytest.raises(tf.errors.NotFoundError, match=r"has neither a SavedModel .* nor a check"):
        read_graph(tmp_path)
    (tmp_path / "x.pb").mkdir()
    with pytest.raises(tf.errors.NotFoundError, match=r"x.pb: the folder has neither"):
        read_graph(tmp_path / "x.pb")
    contents = {
        "empty.pb": (b"", "the file is empty"),
        "noise.pb": (
            bytes(range(256)) * 9,
            "neither a GraphDef nor a MetaGraphDef nor a SavedModel",
        ),
        "code.py": (b"import os\nprint(os)\n", "code.py:1:1: truncated, or not a text proto"),
        "blank.pbtxt": (b"\n\n", "the graph has no nodes"),
        "versions.pb": (tf.GraphDef(versions={"producer": 3}).SerializeToString(), "truncated, or"),
    }
    for name, (content, message) in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
            read_graph(tmp_path / name)
        assert name in caught.value.message and "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(5000), "it is a file of zeros, not a graph"),
        (zipped(bytes(5000)), "it is a file of zeros, not a graph"),
        (b"\x89PNG\r\n\x1a\n" + bytes(99), "it is a picture, not a graph"),
        (b"\x89HDF\r\n\x1a\n" + bytes(99), "an HDF5 file, as Keras writes, .*: save the model as"),
        (b"PK\x03\x04" + bytes(99), "a zip archive, as .keras files are, .*: save the model as"),
        (b"\x1c\0\0\0TFL3" + bytes(99), "a TensorFlow Lite model, .*: give the graph"),
        (b"\x08\x07\x12\x07pytorch\x1a\x011\x3a\x02\x0a\x00", "an ONNX model"),
        (b"\xfd7zXZ\0" + bytes(99), "packed by xz, .*: unpack it first"),
        (np.arange(2000.0).tobytes(), "truncated, or neither"),
        (tf.ConfigProto(intra_op_parallelism_threads=3).SerializeToString(), "truncated, or nei"),
        (b'{"node": []}', "not a text proto"),
    ],
)
def test_files_of_other_programs_are_one_clear_error(
    tmp_path: Path, content: bytes, message: str
) -> None:
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as caught:
        read_graph(tmp_path / "model")
    assert "\n" not in caught.value.message


def test_what_cannot_be_read_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to(tmp_path / "other")
    (tmp_path / "other").symlink_to(tmp_path / "one")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Too many levels of symbolic links"):
        read_graph(tmp_path / "one")
    with pytest.raises(tf.errors.InvalidArgumentError, match="File name too long"):
        read_graph("x" * 5000)
    with pytest.raises(tf.errors.InvalidArgumentError, match="the file is empty"):
        read_graph("/dev/null")
    with pytest.raises(tf.errors.InvalidArgumentError, match="a file of zeros"):
        read_graph("/dev/zero")


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_graph_comes_through_a_pipe(
    tmp_path: Path, graph_def: Any, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    data = graph_def.SerializeToString()
    data = gzip.compress(data) if is_packed else data
    assert read_graph(_piped(tmp_path / "pipe", data)).graph_def == graph_def
    with open(_piped(tmp_path / "input", data), "rb") as pipe:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(pipe))
        assert read_graph("-").graph_def == graph_def
    monkeypatch.setattr(opened_files, "_MOST_PIPED_BYTES", 100)
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than 100 B come from it"):
        read_graph(_piped(tmp_path / "large", data))


def _piped(path: Path, data: bytes) -> Path:
    """A pipe that gives some data to whoever opens it."""
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return path


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


def test_a_file_that_cannot_be_written_leaves_no_trace(tmp_path: Path, graph_def: Any) -> None:
    with pytest.raises(tf.errors.PermissionDeniedError, match=r"no/such/graph.pb: cannot be writt"):
        write_graph(graph_def, tmp_path / "no/such/graph.pb")
    (tmp_path / "folder").mkdir()
    with pytest.raises(tf.errors.PermissionDeniedError, match="folder: cannot be written"):
        write_graph(graph_def, tmp_path / "folder")
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]
