"""Graphs from files whose inspection would not end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.graph_checks import check_graph
from graph_opt.inspect.graph_files import write_graph


def circle(length: int) -> Any:
    graph_def = tf.GraphDef()
    for number in range(length):
        source = "n{}".format((number + 1) % length)
        node = graph_def.node.add(name="n{}".format(number), op="Identity", input=[source])
        node.attr["T"].type = tf.int64.as_datatype_enum
    graph_def.node.add(name="behind", op="Identity", input=["n0"])
    return graph_def


def test_nodes_that_read_each_other_are_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "circle.pb")
    write_graph(circle(2), path)
    for command in (["inspect", path], ["rewrite", path, "-o", path + ".out"]):
        assert main(command) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("graph-opt: {}: nodes read each other in a circle".format(path))
        assert "'n0'" in line and "'n1'" in line and "behind" not in line
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in a circle: 'n0';"):
        check_graph(circle(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"'n4', '\.\.\.';"):
        check_graph(circle(2000))


def test_loops_are_no_circle() -> None:
    ids = tf.placeholder(tf.int64, [None])
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
    tf.nn.embedding_lookup(tf.get_variable("table", [10, 4]), ids)
    check_graph(tf.get_default_graph().as_graph_def())


def test_a_constant_without_its_values_takes_no_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_def = tf.GraphDef()
    node = graph_def.node.add(name="axis", op="Const")
    node.attr["value"].tensor.dtype = tf.int32.as_datatype_enum
    for _ in range(2):
        node.attr["value"].tensor.tensor_shape.dim.add(size=1_000_000)
    path = str(tmp_path / "large.pb")
    write_graph(graph_def, path)
    assert main(["inspect", path]) == 2
    error = capsys.readouterr().err
    assert "constant 'axis' claims to have 1000000000000 values, but holds only" in error


def test_a_node_without_its_inputs_is_one_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="next", op="IteratorGetNext")
    path = str(tmp_path / "graph.pb")
    write_graph(graph_def, path)
    assert main(["inspect", path]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "node 'next' has 0 of the 1 inputs of IteratorGetNext" in line
