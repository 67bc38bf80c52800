"""Stages are read from the graph alone, IO first; a graph that lacks parts is refused."""

from __future__ import annotations

from typing import Any

import pytest

import graph_opt
from graph_opt.compat import live_graph, tf
from graph_opt.ops.tensor_buffer import TensorBuffer
from graph_opt.runtime.staged import prefetch_join, staged
from graph_opt.runtime.stages import downstream_of, stages_of
from tests.runtime.sources import numbers


def test_every_option_is_read_back() -> None:
    staged(
        tf.constant(1),
        capacity=3,
        num_threads=4,
        num_clients=2,
        closed_exception_types=(tf.errors.OutOfRangeError, tf.errors.DataLossError),
        ignored_exception_types=tf.errors.INVALID_ARGUMENT,
        use_stage_subgraph_thread_pool=True,
        stage_subgraph_thread_pool_id=5,
        stage_subgraph_stream_id=2,
        name="scope/input",
    )
    (stage,) = stages_of(tf.get_default_graph())
    spec = stage.spec
    assert (stage.name, spec.name, spec.kind) == ("scope/input", "scope/input", "io")
    assert spec.capacity == 6
    assert [(put.name, put.threads_num) for put in stage.puts] == [
        ("scope/input/TensorBufferPut", 4)
    ]
    assert (spec.thread_pool, spec.stream, spec.upstream) == (5, 2, ())
    assert set(spec.closed_codes) == {tf.errors.OUT_OF_RANGE, tf.errors.DATA_LOSS}
    assert set(spec.ignored_codes) == {tf.errors.INVALID_ARGUMENT}
    assert stage.cancel == "scope/input/TensorBufferCancel"
    assert stage.resume == "scope/input/TensorBufferResume"


def test_upstream_comes_first_whatever_the_order_of_the_nodes() -> None:
    second = tf.placeholder(tf.int64, [])
    staged(second, name="second")
    first = staged(numbers(), name="first")
    live_graph.set_input(tf.get_default_graph(), "second/TensorBufferPut", 0, first.name)
    live_graph.set_attribute(
        tf.get_default_graph(),
        "second/TensorBufferPut",
        "_stage_upstream",
        tf.AttrValue(s=b"first"),
    )
    staged(first, name="other")
    stages = stages_of(tf.get_default_graph())
    assert stages[0].name == "first"
    assert {stage.name for stage in downstream_of(stages[0], stages)} == {"second", "other"}
    assert downstream_of(stages[-1], stages) == []


def test_new_stages_are_seen() -> None:
    graph = tf.get_default_graph()
    assert stages_of(graph) == []
    staged(tf.constant(1), name="a")
    assert [stage.name for stage in stages_of(graph)] == ["a"]
    prefetch_join([1, 2], name="b")
    assert [stage.name for stage in stages_of(graph)] == ["a", "b"]


def test_a_buffer_that_the_user_makes_is_not_a_stage() -> None:
    TensorBuffer("mine").put([tf.constant(1)])
    assert stages_of(tf.get_default_graph()) == []


def graph_without(lost: str) -> Any:
    """A graph with one stage "a" that lacks one of its nodes."""
    staged(tf.constant(1), name="a")
    graph_def = graph_opt.running_graph_def()
    kept = [node for node in graph_def.node if node.name != "a/" + lost]
    del graph_def.node[:]
    graph_def.node.extend(kept)
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
    return graph


@pytest.mark.parametrize(
    "node, role",
    [
        ("TensorBufferCancel", "cancel"),
        ("TensorBufferResume", "resume"),
        ("TensorBufferClose", "TensorBufferClose"),
        ("TensorBufferMetrics", "TensorBufferMetrics"),
    ],
)
def test_a_stage_that_lacks_a_node_is_refused(node: str, role: str) -> None:
    graph = graph_without(node)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' has no {} node".format(role)):
        stages_of(graph)


def test_stages_that_take_from_each_other_are_refused() -> None:
    first = staged(numbers(), name="a")
    staged(first, name="b")
    live_graph.set_attribute(
        tf.get_default_graph(), "a/TensorBufferPut", "_stage_upstream", tf.AttrValue(s=b"b")
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="cycle"):
        stages_of(tf.get_default_graph())
