"""What a page says of a graph, without a browser."""

from __future__ import annotations

import re
from typing import Any, Dict

import pytest

from graph_opt.compat import tf
from graph_opt.config import ConfigProto
from graph_opt.config.options import session_options
from graph_opt.graph.view import GraphView
from graph_opt.passes.graph_reports import node_regions, report_of_lookups, report_of_rewritten
from graph_opt.passes.optimize import optimize_graph_def
from graph_opt.report_page import called_nodes, graph_columns
from graph_opt.report_page.page_content import PageSource, page_content
from graph_opt.report_page.timeline import timeline
from graph_opt.reporting.report import Report
from graph_opt.runtime.trace import StepRecord, Wait
from tests.report_page.page_models import (
    called_source,
    node_names,
    rewritten_source,
    trained_model,
)


@pytest.fixture(scope="module")
def source() -> PageSource:
    with tf.Graph().as_default():
        trained_model()
        return rewritten_source()


@pytest.fixture(scope="module")
def content(source: PageSource) -> Dict[str, Any]:
    return page_content(source)


def test_columns_have_every_node_with_its_inputs(
    source: PageSource, content: Dict[str, Any]
) -> None:
    graph = content["graph"]
    names = node_names(graph)
    before, after = graph["graphs"]
    assert set(names) == {n.name for g in (source.graph_def, source.rewritten) for n in g.node}
    for side, graph_def in ((before, source.graph_def), (after, source.rewritten)):
        numbers = {name: number for number, name in enumerate(names)}
        for node in graph_def.node:
            number = numbers[node.name]
            assert side["regions"][number] != "."
            assert graph["ops"][graph["op"][number]] == node.op
            own = side["inputs"][number] if side is before else side["inputs"].get(number)
            encoded = before["inputs"][number] if own is None else own
            found = [names[one] for one in encoded or () if one >= 0]
            assert found == [text.split(":")[0] for text in node.input if text[0] != "^"]


def test_an_output_other_than_the_first_follows_its_node(content: Dict[str, Any]) -> None:
    graph = content["graph"]
    names = node_names(graph)
    label = names.index("tower/sub")
    encoded = graph["graphs"][0]["inputs"][label]
    assert [encoded[1], names[encoded[1]], encoded[2]] == [encoded[1], "IteratorGetNext", -1]


def test_moved_fused_added_and_idle_nodes_are_told_apart(content: Dict[str, Any]) -> None:
    graph = content["graph"]
    before, after = graph["graphs"]
    changes = {
        name: before["changes"][number] + after["changes"][number]
        for number, name in enumerate(node_names(graph))
    }
    assert changes["IteratorGetNext"] == "mx"
    assert changes["user"] == "fx"
    assert changes["tower/Square"] == "kk"
    assert changes["tower/concat"] == "fx"
    assert changes["tower/Sum"] == "rr"
    copies = [name for name, change in changes.items() if change == ".c"]
    assert "async_embedding/IteratorGetNext" in copies
    fused = {name for name, change in changes.items() if change == ".l"}
    assert any("pooled" in name for name in fused)


def test_regions_are_those_of_the_rewritten_graph(
    source: PageSource, content: Dict[str, Any]
) -> None:
    regions = node_regions(GraphView(source.rewritten))
    assert regions["async_embedding/TensorBufferPut"] == "prefetch"
    assert regions["tower/loss"] == "main"
    assert regions["user_table"] == "none"
    assert regions["IteratorGetNext"] == "idle"
    counts = content["overview"]["regions"][1]
    assert counts["prefetch"] == sum(region == "prefetch" for region in regions.values())


def test_lookups_say_where_ids_come_from_and_why_not(content: Dict[str, Any]) -> None:
    rows = {row["name"]: row for row in content["lookups"]}
    assert set(rows) == {"user", "item", "extra"}
    assert rows["user"]["ids"] == "IteratorGetNext:0"
    assert rows["user"]["shape"] == "[10, 4]"
    assert rows["user"]["stage"] == "async_embedding" and rows["user"]["group"]
    assert rows["extra"]["stage"] == ""
    assert rows["extra"]["ids"] == "fed:0"
    (reason,) = rows["extra"]["reasons"][-1:]
    assert reason["code"] == "placeholder_upstream" and reason["remedy"]
    sizes = {row["name"]: row["bytes"] for row in content["tables"]}
    assert sizes["user_table"] == 10 * 4 * 4


def test_paths_end_at_the_loss_and_cross_buffers(content: Dict[str, Any]) -> None:
    graph = content["graph"]
    names = node_names(graph)
    assert [names[number] for number in graph["losses"]] == ["tower/loss"]
    assert ["async_embedding/TensorBufferPut", "async_embedding/TensorBufferTake"] in [
        [names[put], names[take]] for put, take in graph["buffers"]
    ]


def test_a_graph_that_was_not_rewritten_is_one_graph(source: PageSource) -> None:
    content = page_content(PageSource("model.pb", Report(), source.graph_def))
    assert [side["label"] for side in content["graph"]["graphs"]] == ["graph"]
    assert content["timeline"] is None


def test_what_a_fed_batch_reaches_is_main_and_a_path_begins_there() -> None:
    ids = tf.placeholder(tf.int64, [None], name="ids")
    rows = tf.nn.embedding_lookup(tf.get_variable("table", [10, 4]), ids, name="rows")
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_mean(rows, name="cost"))
    tf.train.Saver()
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    regions = node_regions(GraphView(graph_def))
    assert regions["rows"] == regions["cost"] == regions["ids"] == "main"
    assert regions["table"] == regions["save/SaveV2"] == "none"
    graph = page_content(PageSource("fed", Report(), graph_def))["graph"]
    names = node_names(graph)
    assert [names[number] for number in graph["sources"]] == ["ids"]
    assert [names[number] for number in graph["losses"]] == ["cost"]


def test_names_without_end_and_too_many_nodes_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    graph_def = tf.GraphDef()
    graph_def.node.add(name="a/" * 5000 + "deep", op="NoOp")
    for number in range(20):
        graph_def.node.add(name="node_{}".format(number), op="NoOp")
    monkeypatch.setattr(graph_columns, "MOST_NODES", 10)
    graph = page_content(PageSource("many", Report(), graph_def))["graph"]
    assert len(graph["leaf"]) == 10 and graph["left_out"] == 11
    assert len(graph["scopeNames"]) <= 42


def test_long_attributes_are_cut_and_values_left_out() -> None:
    graph_def = tf.GraphDef()
    node = graph_def.node.add(name="constant", op="Const")
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto([1.0] * 50000))
    node.attr["text"].s = b"x" * 100000
    (text,) = page_content(PageSource("one", Report(), graph_def))["graph"]["attributes"]
    assert len(text) < 250 and "value = float32 [50000]" in text


def test_a_timeline_has_a_lane_for_each_thread_in_order() -> None:
    steps = [
        StepRecord(
            "main", "MainThread", 0, 10.0, 10.5, (Wait("TensorBufferTake", 10.1, 10.2),), True
        ),
        StepRecord("stage", "thread/0", 0, 9.0, 10.0),
        StepRecord("stage_io", "thread/1", 0, 8.0, 9.5),
    ]
    lanes = timeline(steps, {"stage": "prefetch", "stage_io": "io"})
    assert lanes is not None
    assert [(lane["stage"], lane["region"]) for lane in lanes["lanes"]] == [
        ("stage_io", "io"),
        ("stage", "prefetch"),
        ("main", "main"),
    ]
    assert lanes["lanes"][2]["steps"] == [[2000.0, 2500.0, 0, [[2100.0, 2200.0]]]]
    assert lanes["end"] == 2500.0 and lanes["detailed"]


def test_lookups_where_no_pass_can_reach_have_rows_and_tables() -> None:
    ids = tf.placeholder(tf.int64, [None])
    table = tf.get_variable("table", [10, 4], use_resource=True)
    other = tf.get_variable("other", [20, 4], use_resource=True)

    @tf.function
    def looked_up(rows: Any) -> Any:
        return tf.gather(rows, ids)

    used = tf.placeholder_with_default(True, [])
    in_branch = tf.cond(used, lambda: tf.gather(other, ids), lambda: tf.zeros([1, 4]))
    tf.add(looked_up(table), in_branch, name="loss")
    graph_def = tf.get_default_graph().as_graph_def()
    report = report_of_lookups(graph_def, session_options(ConfigProto()))
    content = page_content(PageSource("functions", report, graph_def))
    reasons = {row["tables"][0]: row["reasons"][0]["code"] for row in content["lookups"]}
    assert reasons == {"table": "lookup_in_function", "other": "lookup_in_control_flow"}
    assert {row["name"]: row["shape"] for row in content["tables"]} == {
        "table": "[10, 4]",
        "other": "[20, 4]",
    }
    assert content["overview"]["lookups"]["elsewhere"] == 2
    assert len(content["graph"]["lookups"]) == 2
    assert "2 lookups left as they are" in content["overview"]["summary"]


def test_bodies_of_functions_are_scopes_of_their_calls() -> None:
    content = page_content(called_source())
    graph, names = content["graph"], node_names(content["graph"])
    call = "tower/StatefulPartitionedCall"
    inside = [name for name in names if name.startswith(call + "/")]
    assert {name.rpartition("/")[2] for name in inside} >= {"rows", "doubled"}
    assert {graph["graphs"][0]["regions"][names.index(name)] for name in inside} == {"m"}
    ends = [names[node] for node in graph["returned"][names.index(call)]]
    assert ends and set(ends) < set(inside)
    assert content["called"]["nodes"] == len(names) - content["overview"]["nodes"]["graph"]
    assert content["called"]["calls"] == 4 and content["called"]["left_out"] == 0
    looked_up = [row["node"] for row in content["lookups"]]
    assert len(looked_up) == 2 and all(name.endswith("/rows") for name in looked_up)


def test_functions_that_would_be_too_much_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called_nodes, "_MOST_CALLED", 3)
    content = page_content(called_source())
    assert content["called"] == {"nodes": 0, "calls": 0, "iterated": 0, "left_out": 2}
    assert len(content["lookups"]) == 2


def test_partitioned_tables_are_whole_before_a_rewrite_and_after() -> None:
    ids = tf.placeholder(tf.int64, [8], name="ids")
    shards = tf.fixed_size_partitioner(3)
    users = tf.get_variable("users", [100, 4], partitioner=shards, use_resource=True)
    rows = tf.nn.embedding_lookup(users, ids)
    tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))
    graph_def = tf.get_default_graph().as_graph_def(add_shapes=True)
    config = ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    optimized = optimize_graph_def(graph_def, config)
    rewritten = report_of_rewritten(optimized.graph_def)
    for report in (optimized.report, rewritten):
        source = PageSource("partitioned", report, graph_def, optimized.graph_def)
        (lookup,) = page_content(source)["lookups"]
        assert lookup["shape"] == "[100, 4]"
    (table,) = page_content(PageSource("alone", rewritten, optimized.graph_def))["tables"]
    assert (table["name"], table["shape"], table["bytes"]) == ("users", "[100, 4]", 1600)


def test_regions_are_counted_as_the_text_counts_them(
    source: PageSource, content: Dict[str, Any]
) -> None:
    regions = content["overview"]["regions"][1]
    text = content["text"]
    for name, shown in (("io", "io"), ("main", "main"), ("none", "no batch"), ("idle", "idle")):
        assert re.search("^{} +{}$".format(shown, regions[name]), text, re.MULTILINE), name
    again = report_of_rewritten(source.rewritten)
    assert again.regions == {name: regions[name] for name in again.regions}
