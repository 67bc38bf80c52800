"""Two graphs compared: what was added, moved, fused, lost, changed, and what is no difference."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graph_opt.cli.main import main
from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import GRAPH_NUMBER
from graph_opt.inspect.graph_diff import GraphDiff, NodeChange, graph_diff
from graph_opt.passes.optimize import optimize_graph_def
from tests.report_page.page_models import content_of, lookups_config, trained_model


@pytest.fixture(scope="module")
def built() -> Any:
    with tf.Graph().as_default() as graph:
        trained_model()
        return graph.as_graph_def(add_shapes=True)


def changed(graph_def: Any, name: str) -> Any:
    """A copy of the graph, and its node of this name."""
    copy = tf.GraphDef()
    copy.CopyFrom(graph_def)
    (node,) = [node for node in copy.node if node.name == name]
    return copy, node


def test_a_rewrite_adds_moves_and_fuses_and_loses_nothing(built: Any) -> None:
    rewritten = optimize_graph_def(built, lookups_config()).graph_def
    diff = graph_diff(built, rewritten)
    assert diff.lost == {} and diff.same > 0
    assert len(diff.added) == len(rewritten.node) - len(built.node)
    assert diff.moved == {"async_embedding/IteratorGetNext": "IteratorGetNext"}
    assert 2 in diff.fused.values()
    assert NodeChange("tower/Sum", "inputs", "tower/concat, tower/Sum/reduction_indices", "") in [
        NodeChange(one.node, one.part, one.before, "") for one in diff.changed
    ]
    back = graph_diff(rewritten, built)
    assert back.lost == diff.added and back.added == {}


def test_each_part_of_a_node_is_compared(built: Any) -> None:
    other, node = changed(built, "tower/Square")
    node.op, node.device = "Neg", "/device:CPU:0"
    node.attr["T"].type = 2
    node.attr["extra"].s = b"text"
    parts = {one.part: (one.before, one.after) for one in graph_diff(built, other).changed}
    assert parts == {
        "op": ("Square", "Neg"),
        "device": ("", "/device:CPU:0"),
        "attribute T": ("1", "2"),
        "attribute extra": ("", "b'text'"),
    }


def test_shapes_colocations_and_numbers_of_graphs_are_no_difference(built: Any) -> None:
    other, node = changed(built, "tower/Square")
    node.attr["_class"].list.s.append(b"loc:@tower/sub")
    node.attr[GRAPH_NUMBER].s = b"2"
    assert "_output_shapes" in node.attr
    del node.attr["_output_shapes"]
    diff = graph_diff(built, other)
    assert diff.is_empty and diff.same == len(built.node)
    assert str(diff) == "alike, {} nodes".format(len(built.node))


def test_functions_are_compared_by_name() -> None:
    before, after = tf.GraphDef(), tf.GraphDef()
    for graph_def, names in ((before, "ab"), (after, "bc")):
        for name in names:
            graph_def.library.function.add().signature.name = name
    after.library.function[0].signature.description = "changed"
    assert graph_diff(before, after).functions == ("a", "b", "c")


def test_a_long_difference_is_cut_in_text_but_not_in_json() -> None:
    changes = tuple(NodeChange("n{}".format(i), "op", "x" * 500, "y") for i in range(50))
    diff = GraphDiff(0, {"\x1b[31m": "NoOp"}, {}, changes, {}, {}, ())
    text = str(diff)
    assert "and 30 more; --json has all" in text and "\x1b" not in text
    assert max(map(len, text.splitlines())) < 160
    assert len(json.loads(json.dumps(diff.to_dict()))["changed"]) == 50


def test_the_exit_code_tells_whether_graphs_differ(
    built: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = str(tmp_path / "before.pb"), str(tmp_path / "after.pb")
    rewritten = optimize_graph_def(built, lookups_config()).graph_def
    for path, graph_def in ((before, built), (after, rewritten)):
        Path(path).write_bytes(graph_def.SerializeToString())
    assert main(["inspect", before, "--diff", before]) == 0
    assert main(["inspect", before, "--diff", str(tmp_path / "missing.pb")]) == 2
    assert main(["inspect", before, "--diff", after, "--set", "capacity=2"]) == 2
    assert "goes with --json and --html only" in capsys.readouterr().err
    page = tmp_path / "diff.html"
    assert main(["inspect", before, "--diff", after, "--json", "--html", str(page)]) == 1
    assert json.loads(capsys.readouterr().out)["equal"] is False
    sides = content_of(page.read_text("utf-8"))["graph"]["graphs"]
    assert [side["label"] for side in sides] == ["before", "after"]
