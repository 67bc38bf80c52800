"""Marked tensors are lookups whatever computes them; marks that make no sense are refused."""

from __future__ import annotations

from typing import Any, List

import pytest

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.rules import LookupSearch, find_lookups
from graph_opt.runtime.mark import async_embedding_mark_node
from tests.rules.search import codes, outputs, search


def table(name: str = "table", resource: bool = False) -> Any:
    return tf.get_variable(name, [10, 4], use_resource=resource)


def ids() -> tf.Tensor:
    return tf.placeholder(tf.int64, [None], name="ids")


def marked_by_hand(name: str, outputs_marked: List[int]) -> LookupSearch:
    graph_def = tf.get_default_graph().as_graph_def()
    node = next(node for node in graph_def.node if node.name == name)
    node.attr["_async_embedding_marked"].b = True
    if outputs_marked:
        node.attr["_async_embedding_marked_outputs"].list.i.extend(outputs_marked)
    return find_lookups(GraphView(graph_def))


def test_a_marked_tensor_without_pattern_is_a_lookup() -> None:
    hashed = tf.one_hot(ids(), 10) @ tf.identity(table())
    async_embedding_mark_node(hashed)
    found = search()
    assert outputs(found) == [("marked", hashed.name)]
    assert found.lookups[0].tables == ()


@pytest.mark.parametrize("resource", [False, True])
def test_a_marked_tensor_names_the_tables_read_upstream(resource: bool) -> None:
    first = tf.nn.embedding_lookup(table("first", resource), ids())
    second = tf.nn.embedding_lookup(table("second", resource), ids())
    joined = async_embedding_mark_node(tf.concat([first, second], 1))
    found = search()
    assert outputs(found)[-1] == ("marked", joined.name)
    assert [entry.name for entry in found.lookups[-1].tables] == ["first", "second"]
    assert len(found.lookups) == 3
    gathers = {rows.op.inputs[0].op.name for rows in (first, second)}
    assert set(found.lookups[-1].gathers) == gathers


def test_a_marked_output_of_a_known_lookup_stays_what_it_is() -> None:
    rows = async_embedding_mark_node(tf.nn.embedding_lookup(table(), ids()))
    assert outputs(search()) == [("tf.nn.embedding_lookup", rows.name)]


def test_each_marked_output_is_a_lookup() -> None:
    halves = tf.split(tf.placeholder(tf.float32, [None, 4]), 2, axis=1)
    for half in halves:
        async_embedding_mark_node(half)
    assert outputs(search()) == [("marked", half.name) for half in halves]


def test_a_mark_without_outputs_means_the_first() -> None:
    tf.identity(tf.placeholder(tf.float32, [None]), "plain")
    assert outputs(marked_by_hand("plain", [])) == [("marked", "plain:0")]


def test_a_missing_output_is_refused() -> None:
    tf.identity(tf.placeholder(tf.float32, [None]), "plain")
    found = marked_by_hand("plain", [0, 3])
    assert outputs(found) == [("marked", "plain:0")]
    assert codes(found) == [("marked_output_missing", "plain")]
    assert found.refusals[0].saw == "3"


@pytest.mark.parametrize("resource", [False, True])
def test_a_marked_variable_is_refused(resource: bool) -> None:
    whole = tf.identity(table(resource=resource), "whole")
    async_embedding_mark_node(whole)
    assert search().lookups == ()
    assert codes(search()) == [("marked_variable", "whole")]


def test_tables_of_a_thousand_marks_on_one_long_chain_cost_linear_time() -> None:
    tensor = tf.gather(table(), ids())
    for step in range(1000):
        tensor = tf.raw_ops.Relu(features=tensor, name="step_{}".format(step))
    graph_def = tf.get_default_graph().as_graph_def()
    for node in graph_def.node:
        if node.op == "Relu":
            node.attr["_async_embedding_marked"].b = True
    lookups = find_lookups(GraphView(graph_def)).lookups
    assert len(lookups) == 1001
    assert [entry.name for entry in lookups[1].tables] == ["table"]


def test_a_table_without_attributes_upstream_of_a_mark_is_refused() -> None:
    rows = tf.gather(table(), ids(), name="rows")
    async_embedding_mark_node(tf.nn.relu(rows))
    graph_def = tf.get_default_graph().as_graph_def()
    for node in graph_def.node:
        if node.op == "VariableV2":
            del node.attr["shape"]
    found = find_lookups(GraphView(graph_def))
    assert found.lookups == ()
    assert codes(found) == [("table_attributes_missing", "table")] * 2
