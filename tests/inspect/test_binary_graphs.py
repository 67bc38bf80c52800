"""Graphs of any size in binary files: what is kept, left out and counted."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.compat.saved_models import SavedModel
from graph_opt.compat.varint import varint
from graph_opt.graph.elided_values import ELIDED, ELIDED_DIGEST
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.inspect import graph_parts
from graph_opt.inspect.graph_files import read_graph, write_graph
from graph_opt.inspect.graph_parts import Limits
from tests.json_documents import validated

SMALL = Limits(nodes=1000, value_bytes=1000, graph_bytes=1 << 30)


def graph_with_values(seed: int = 0) -> Any:
    """A large tensor, large text, and a function with a large tensor."""
    graph_def = tf.GraphDef()
    graph_def.versions.producer = 1087
    numbers = np.random.default_rng(seed).standard_normal(2000).astype(np.float32)
    words = np.array([b"word %d" % number for number in range(500)], object)
    function = graph_def.library.function.add()
    function.signature.name = "body"
    for nodes in (graph_def.node, function.node_def):
        for name, value in (("numbers", numbers), ("words", words), ("few", numbers[:3])):
            node = nodes.add(name=name, op="Const")
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
            node.attr["dtype"].type = node.attr["value"].tensor.dtype
    graph_def.node.add(name="noted", op="NoOp").attr["note"].s = b"x" * 5000
    return graph_def


def saved_as(form: str, graph_def: Any, path: Path) -> str:
    meta = tf.MetaGraphDef(graph_def=graph_def)
    meta.meta_info_def.tags.append("serve")
    name = str(path / form)
    if form == "saved_model.pb":
        message = SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
    else:
        message = meta if "meta" in form else graph_def
    if form.endswith("txt"):
        data = text_format.MessageToString(message).encode()
    else:
        data = message.SerializeToString()
    (path / form).write_bytes(gzip.compress(data) if form.endswith(".gz") else data)
    return name


@pytest.mark.parametrize(
    "form", ["graph.pb", "model.meta", "saved_model.pb", "graph.pb.gz", "graph.pbtxt", "meta.pbtxt"]
)
def test_large_values_are_left_out_and_all_else_is_kept(tmp_path: Path, form: str) -> None:
    expected = graph_with_values()
    path = saved_as(form, expected, tmp_path)
    assert read_graph(path).graph_def == expected
    graph_def = read_graph(path, limits=SMALL).graph_def
    shortened = {node.name: node for node in graph_def.node}
    assert shortened["few"] == expected.node[2]
    for nodes in (graph_def.node, graph_def.library.function[0].node_def):
        for node, whole in zip(nodes[:2], expected.node[:2]):
            kept, value = node.attr["value"].tensor, whole.attr["value"].tensor
            assert (kept.dtype, kept.tensor_shape) == (value.dtype, value.tensor_shape)
            assert node.attr["dtype"] == whole.attr["dtype"]
            lost = node.attr[ELIDED].i
            assert 0 <= value.ByteSize() - kept.ByteSize() - lost < 10  # The header of a field.
    assert shortened["noted"].attr[ELIDED].i == 5000
    assert graph_def.versions == expected.versions


def test_what_is_left_out_is_unknown_not_zero() -> None:
    graph_def = tf.GraphDef()
    node = graph_def.node.add(name="c", op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    assert GraphView(graph_def).constant(TensorRef("c", 0)) is not None
    node.attr[ELIDED].i = 8
    assert GraphView(graph_def).constant(TensorRef("c", 0)) is None


def test_values_that_were_left_out_still_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph_opt.cli.graph_input.LARGE_VALUE_BYTES", 1000)
    first, second = tmp_path / "first.pb", tmp_path / "second.pb"
    write_graph(graph_with_values(0), first)
    write_graph(graph_with_values(1), second)
    assert main(["inspect", str(first), "--diff", str(first)]) == 0
    assert main(["inspect", str(first), "--diff", str(second), "--json"]) == 1
    diff = validated(capsys.readouterr().out.partition("\n")[2])
    changed = {(one["node"], one["part"]) for one in diff["changed"]}
    assert ("numbers", "attribute " + ELIDED_DIGEST) in changed
    assert not any(name == "words" for name, _ in changed)


@pytest.mark.parametrize("form", ["graph.pb", "saved_model.pb", "graph.pb.gz", "graph.pbtxt"])
def test_a_graph_beyond_the_limit_is_counted(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_def = graph_with_values()
    variable = graph_def.node.add(name="deep/table", op="VarHandleOp", device="/job:ps/task:1")
    variable.attr["dtype"].type = tf.float32.as_datatype_enum
    for size in (1000, 16):
        variable.attr["shape"].shape.dim.add(size=size)
    path = saved_as(form, graph_def, tmp_path)
    assert main(["inspect", path, "--max-nodes", "7", "--json"]) == 0
    counted = validated(capsys.readouterr().out)["counted"]
    assert (counted["nodes"], counted["functions"], counted["function_nodes"]) == (5, 1, 3)
    assert counted["ops"] == {"Const": 6, "NoOp": 1, "VarHandleOp": 1}
    assert counted["devices"] == {"": 4, "/job:ps/task:1": 1}
    assert counted["variable_bytes"] == 64_000
    assert counted["largest_variables"][0] == {
        "node": "deep/table",
        "bytes": 64_000,
        "shape": [1000, 16],
    }
    assert counted["constants"] == 6 and counted["constant_bytes"] > 16_000
    assert main(["inspect", path, "--max-nodes", "7", "--html", str(tmp_path / "x.html")]) == 1
    out, error = capsys.readouterr()
    assert "5 nodes, and 3 in 1 function" in out and "deep/table" in out
    assert "nothing was done for --html: more than --max-nodes 7" in error
    assert main(["plan", path, "--max-nodes", "7"]) == 2
    assert "has 8 nodes, 3 of them in functions: more than" in capsys.readouterr().err
    assert main(["inspect", path, "--max-nodes", "8"]) == 0


def test_a_graph_of_too_many_bytes_is_counted(tmp_path: Path) -> None:
    graph_def = graph_with_values()
    path = saved_as("graph.pb", graph_def, tmp_path)
    counted = read_graph(path, limits=Limits(100, 1000, 100)).counted
    assert counted is not None and "memory" in counted.reason


def test_once_there_are_many_smaller_values_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph_parts, "_MANY_BYTES", 5000)
    monkeypatch.setattr(graph_parts, "_SMALL_VALUE_BYTES", 100)
    monkeypatch.setattr("graph_opt.inspect.wire_format._BLOCK_BYTES", 500)
    graph_def = tf.GraphDef()
    for number in range(40):
        node = graph_def.node.add(name="c{}".format(number), op="Const")
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.arange(100.0)))
    write_graph(graph_def, tmp_path / "graph.pb")
    found = read_graph(tmp_path / "graph.pb", limits=Limits(100, 1000)).graph_def.node
    assert [node.name for node in found] == [node.name for node in graph_def.node]
    elided = [ELIDED in node.attr for node in found]
    assert not elided[0] and elided[-1] and elided == sorted(elided)


def test_where_a_file_ends_too_early_is_told(tmp_path: Path) -> None:
    graph_def = tf.GraphDef()
    for number in range(1000):
        graph_def.node.add(name="n{}".format(number), op="NoOp")
    data = graph_def.SerializeToString()
    (tmp_path / "graph.pb").write_bytes(data[:-1])
    for limits in (SMALL, graph_parts.EVERYTHING):
        with pytest.raises(tf.errors.InvalidArgumentError, match="behind 999 whole nodes: it ends"):
            read_graph(tmp_path / "graph.pb", limits=limits)


def test_a_graph_that_no_message_holds_is_not_rewritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graph_opt.inspect.wire_format.MOST_MESSAGE_BYTES", 1000)
    monkeypatch.setattr("graph_opt.inspect.wire_format._BLOCK_BYTES", 100)
    path = saved_as("graph.pb", graph_with_values(), tmp_path)
    assert main(["rewrite", path, "-o", str(tmp_path / "out.pb")]) == 2
    assert "protobuf reads and writes 2 GiB at most" in capsys.readouterr().err


def test_messages_in_messages_have_a_limit(tmp_path: Path) -> None:
    data = b"\x0a\x01n\x12\x01o" + b"\x2a" + _delimited(b"\x12" + _delimited(_nested(200)))
    (tmp_path / "deep.pb").write_bytes(b"\x0a" + _delimited(data))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"deep.pb: truncated, or neither"):
        read_graph(tmp_path / "deep.pb", limits=Limits(10, 50))


def _nested(depth: int) -> bytes:
    """An AttrValue with a function that has an attribute that has a function ..."""
    value = b"\x12" + _delimited(b"x" * 200)
    for _ in range(depth):
        value = b"\x52" + _delimited(b"\x12" + _delimited(b"\x0a\x01f\x12" + _delimited(value)))
    return value


def _delimited(value: bytes) -> bytes:
    return varint(len(value)) + value


_PEAK = """
import resource, sys
from graph_opt.cli.main import main
main(["inspect", sys.argv[1], "--max-nodes", "1000"])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    size = 300 << 20
    head = tf.NodeDef(name="giant", op="Const").SerializeToString()
    tensor = b"\x08\x01\x12" + _delimited(b"\x12\x04\x08\x80\x80\x04")
    content = tensor + b"\x22" + varint(size)
    value = b"\x42" + varint(len(content) + size) + content
    entry = b"\x0a\x05value\x12" + varint(len(value) + size) + value
    node = head + b"\x2a" + varint(len(entry) + size) + entry
    giant, many = tmp_path / "giant.pb", tmp_path / "many.pb.gz"
    with open(giant, "wb") as file:
        file.write(b"\x0a" + varint(len(node) + size) + node)
        file.truncate(file.tell() + size)  # Zeros, which take no place on the disk.
    block = b"".join(
        b"\x0a" + _delimited(tf.NodeDef(name="n{}".format(i), op="NoOp").SerializeToString())
        for i in range(100_000)
    )
    with gzip.open(many, "wb", compresslevel=1) as packed:
        for _ in range(15):
            packed.write(block)
    peaks = []
    for path in (tmp_path / "none.pb", giant, many):
        done = subprocess.run(
            [sys.executable, "-c", _PEAK, str(path)],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ, TF_CPP_MIN_LOG_LEVEL="2"),
        )
        peaks.append(int(done.stdout.splitlines()[-1]))
    assert "1,500,000 nodes" in done.stdout
    assert max(peaks) - peaks[0] < 100 << 10
