"""DOT files: every node and edge once, in clusters that close, whatever names are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import List

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.inspect.dot import graph_dot
from tests.report_page.page_models import (
    HOSTILE_NAMES,
    hostile_graph,
    hostile_lookups,
    trained_model,
)

_STRING = r'"(?:[^"\\]|\\.)*"'
_STATEMENT = re.compile(
    r"digraph \{|\}|subgraph cluster_\d+_\d+ \{|label={0};|rankdir=LR;|(?:node|graph) \[.*\];"
    r"|n\d+ \[label={0}, fillcolor={0}\];|n\d+ -> n\d+(?: \[style=dashed\])?;".replace(
        "{0}", _STRING
    )
)


def statements(text: str) -> List[str]:
    """The lines of a file, each of which must be one statement of the language."""
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if _STATEMENT.fullmatch(line) is None] == []
    assert sum(line.endswith("{") for line in lines) == lines.count("}")
    return lines


def test_nodes_are_in_the_clusters_of_their_scopes(tmp_path: Path) -> None:
    trained_model()
    graph_def = tf.get_default_graph().as_graph_def()
    graph, dot = tmp_path / "model.pb", tmp_path / "model.dot"
    graph.write_bytes(graph_def.SerializeToString())
    assert main(["inspect", str(graph), "--dot", str(dot)]) == 0
    lines = statements(dot.read_text("utf-8"))
    assert 'label="tower";' in lines
    labels = [line for line in lines if re.match(r"n\d+ \[", line)]
    assert len(labels) > len(graph_def.node)  # The rewritten graph has more.
    assert any('label="TensorBufferPut", fillcolor="#dcfce7"' in line for line in labels)


def test_each_scope_is_one_cluster() -> None:
    graph_def = tf.GraphDef()
    for name in ("a/b/x", "c", "a/y", "a/b/z", "a-b/x", "a/b"):
        graph_def.node.add(name=name, op="NoOp")
    lines = statements(graph_dot(graph_def))
    labels = [line for line in lines if line.startswith("label=")]
    assert sorted(labels) == ['label="a";', 'label="a-b";', 'label="b";']


def test_each_edge_is_drawn_once_and_controls_are_dashed() -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="a", op="NoOp")
    graph_def.node.add(name="scope/b", op="Relu", input=["^a"])
    graph_def.node.add(name="c", op="AddV2", input=["scope/b", "scope/b:0"])
    edges = [line for line in statements(graph_dot(graph_def)) if "->" in line]
    assert edges == ["n0 -> n1 [style=dashed];", "n1 -> n2;"]


def test_hostile_names_stay_within_their_strings() -> None:
    assert statements(graph_dot(hostile_lookups()))
    lines = statements(graph_dot(hostile_graph()))
    assert sum(line.startswith("n") and "fillcolor" in line for line in lines) == len(HOSTILE_NAMES)
