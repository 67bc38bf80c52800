"""Dumps appear only if the environment asks for them, and contain no large values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.graph.elided_values import ELIDED
from graph_opt.inspect.dump import VARIABLE, dump_graph, is_wanted, without_large_values
from graph_opt.inspect.graph_files import read_graph


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(VARIABLE, "true")


def test_dumps_have_deeprecs_names_and_the_whole_graph(tmp_path: Path) -> None:
    tf.constant([1.0, 2.0], name="small")
    graph_def = tf.get_default_graph().as_graph_def()
    assert dump_graph(graph_def, "before") == str(tmp_path / "graph_before_async_embedding.pbtxt")
    assert dump_graph(graph_def, "after") == str(tmp_path / "graph_after_async_embedding.pbtxt")
    assert read_graph("graph_before_async_embedding.pbtxt").graph_def == graph_def
    assert read_graph("graph_after_async_embedding.pbtxt").graph_def == graph_def


@pytest.mark.parametrize(
    "value, wanted", [("TRUE", True), ("1", True), ("false", False), ("", False)]
)
def test_the_variable_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, wanted: bool
) -> None:
    monkeypatch.setenv(VARIABLE, value)
    assert is_wanted() == wanted
    assert (dump_graph(tf.GraphDef(), "before") is not None) == wanted
    monkeypatch.delenv(VARIABLE)
    assert dump_graph(tf.GraphDef(), "after") is None
    assert len(list(tmp_path.iterdir())) == int(wanted)


def test_large_constants_are_left_out_with_a_note() -> None:
    numbers = np.ones([600, 600], np.float32)
    tf.constant(numbers, name="large")
    tf.constant(numbers[:10], name="small")
    graph_def = tf.get_default_graph().as_graph_def()
    before = tf.GraphDef()
    before.CopyFrom(graph_def)
    path = dump_graph(graph_def, "before")
    assert path is not None and Path(path).stat().st_size < 100_000
    assert graph_def == before
    large, small = read_graph(path).graph_def.node
    assert large.attr[ELIDED].i > numbers.nbytes
    assert [size.size for size in large.attr["value"].tensor.tensor_shape.dim] == [600, 600]
    assert large.attr["dtype"].type == tf.float32.as_datatype_enum
    assert np.array_equal(tf.make_ndarray(small.attr["value"].tensor), numbers[:10])


def test_large_constants_in_functions_are_left_out_too() -> None:
    function_def = tf.GraphDef()
    function = function_def.library.function.add()
    function.signature.name = "f"
    node = function.node_def.add(name="large", op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.ones(400_000)))
    stubbed = without_large_values(function_def)
    assert stubbed.ByteSize() < 1000
    assert stubbed.library.function[0].signature.name == "f"
    assert stubbed.library.function[0].node_def[0].attr[ELIDED].i > 3_000_000


def test_a_dump_that_cannot_be_written_does_not_end_training(tmp_path: Path) -> None:
    (tmp_path / "graph_before_async_embedding.pbtxt").mkdir()
    assert dump_graph(tf.GraphDef(), "before") is None


def test_there_are_two_dumps() -> None:
    with pytest.raises(ValueError, match="'during'"):
        dump_graph(tf.GraphDef(), "during")
