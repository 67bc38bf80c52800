"""The graph that passes plan with has no values that would make it too large to be written."""

from __future__ import annotations

from typing import Any

import numpy as np

import graph_opt
from graph_opt.compat import tf
from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.graph.elided_values import is_elided
from graph_opt.session import live
from graph_opt.session.planned_graph import planned_graph_def
from tests.session.small_model import report_on
from tests.session.test_fused_inference import fusing

ROWS = 1 << 17  # 2 MiB of rows of 4 numbers


def built() -> Any:
    """The sum of a row of a large constant and one of a small one."""
    ids = tf.placeholder(tf.int64, [None], name="ids")
    values = np.arange(ROWS * 4, dtype=np.float32).reshape(ROWS, 4)
    with tf.device("/cpu:0"), tf.control_dependencies([tf.no_op("before")]):
        tf.constant(values, name="waiting")
    tables = [tf.constant(values, name="large"), tf.constant(values[:8], name="small")]
    doubled = tf.data.Dataset.range(3).map(lambda one: 2 * one)  # a function of the graph
    tf.data.make_one_shot_iterator(doubled).get_next()
    rows = [tf.nn.embedding_lookup(table, ids) for table in tables]
    return tf.add_n(rows, name="sum")


def test_a_graph_within_the_limit_is_whole() -> None:
    built()
    graph = tf.get_default_graph()
    assert planned_graph_def(graph) == running_graph_def(graph, add_shapes=True)


def test_beyond_the_limit_only_large_constants_lose_their_values() -> None:
    built()
    graph = tf.get_default_graph()
    whole, planned = running_graph_def(graph, add_shapes=True), planned_graph_def(graph, 0)
    elided = [node.name for node in planned.node if is_elided(node)]
    assert elided == ["waiting", "large"] and planned.ByteSize() < 1 << 20
    functions, others = (
        {one.signature.name for one in each.library.function} for each in (planned, whole)
    )
    assert functions == others and planned.versions == whole.versions
    for node, other in zip(planned.node, whole.node):
        if is_elided(node):
            node.attr.pop("_elided_bytes")
            for one in (node, other):
                one.attr["value"].tensor.tensor_content = b""
        assert node == other


def test_such_a_graph_is_fused(monkeypatch: Any) -> None:
    monkeypatch.setattr(live, "planned_graph_def", lambda graph: planned_graph_def(graph, 0))
    result = built()
    with graph_opt.Session(config=fusing()) as session:
        found = session.run(result, {"ids:0": [1, 7]})
    np.testing.assert_array_equal(found[:, 0], [8, 56])
    assert len(report_on(result.graph).fused) == 2
