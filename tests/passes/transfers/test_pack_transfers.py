"""Tensors of many tables cross between two tasks as one, with unchanged values."""

from __future__ import annotations

from typing import Any, List, Set

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes.optimize import optimize_graph_def
from tests.passes import models

TABLES = 5


def _distributed_model(tables: int = TABLES, servers: int = 1) -> None:
    cluster = tf.train.ClusterSpec(
        {"ps": ["host:{}".format(port) for port in range(servers)], "worker": ["host:99"]}
    )
    device = tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:0")
    with tf.device(device):
        inputs = models.features()
        pooled = []
        for number in range(tables):
            # One table after another, so that round-robin placement spreads them.
            table = models.table("table{}".format(number), resource=number % 2 == 0)
            ids = tf.sparse.from_dense(inputs["ids"])
            pooled.append(tf.nn.safe_embedding_lookup_sparse(table, ids, combiner="mean"))
        models.train(pooled, inputs)


def _optimized() -> Any:
    """The default graph with lookups run ahead, and dense weights as TensorFlow sends them."""
    config = models.config()
    config.graph_options.optimizer_options.pack_dense = False
    return optimize_graph_def(graph_opt.running_graph_def(add_shapes=True), config)


def _calls(result: Any, ops: Set[str]) -> List[str]:
    """Names of tensors that nodes of these types send to another task, each call once."""
    view = GraphView(result.graph_def)
    calls = set()
    for name in view.nodes:
        for tensor in view.inputs(name):
            if {name, tensor.node} & result.report.hidden or view.op(tensor.node) not in ops:
                continue
            tasks = [view.device(node).split("/device")[0] for node in (tensor.node, name)]
            if all(tasks) and tasks[0] != tasks[1]:
                calls.add("{} {}".format(tensor, tasks[1]))
    return sorted(calls)


def test_two_calls_replace_one_for_each_table_and_direction() -> None:
    _distributed_model()
    result = _optimized()
    assert [transfer.tensors for transfer in result.report.packed_transfers] == [TABLES] * 4
    assert str(result.report).count("travel as one") == 4
    lookups = {"Unique", "GatherV2", "ResourceGather", "UnsortedSegmentSum"}
    assert _calls(result, lookups) == []
    # Ids and rows of prefetch, ids and gradients of main.
    assert len(_calls(result, {"ConcatV2"})) == 4
    assert len(_calls(result, {"Pack", "FloorDiv"})) == 4


def test_each_parameter_server_gets_its_own_pack() -> None:
    _distributed_model(tables=6, servers=2)
    packed = _optimized().report.packed_transfers
    targets = {transfer.target for transfer in packed if "worker" in transfer.source}
    assert targets == {"/job:ps/task:{}/device:CPU:0".format(task) for task in (0, 1)}


def test_a_single_table_is_unchanged() -> None:
    _distributed_model(tables=1)
    assert _optimized().report.packed_transfers == ()


def test_a_graph_on_one_task_is_unchanged() -> None:
    models.safe_model()
    result = _optimized()
    assert result.report.packed_transfers == ()
    assert not [node.name for node in result.graph_def.node if node.op == "SplitV"]


def test_tensors_of_different_widths_are_sent_separately() -> None:
    with tf.device("/job:ps/task:0"):
        narrow = [tf.get_variable("narrow{}".format(i), [30, 2]) for i in range(2)]
        broad = [tf.get_variable("broad{}".format(i), [30, 8]) for i in range(2)]
    with tf.device("/job:worker/task:0"):
        inputs = models.features()
        ids = tf.unique(inputs["other"])
        rows = [tf.nn.embedding_lookup(table, ids.y) for table in narrow + broad]
        pooled = [tf.gather(row, ids.idx) for row in rows]
        models.train(pooled, inputs)
    packed = _optimized().report.packed_transfers
    from_server = [t.tensors for t in packed if "ps" in t.source]
    assert from_server == [2, 2]


def test_lookups_that_need_each_other_are_sent_separately() -> None:
    with tf.device("/job:ps/task:0"):
        first = tf.get_variable("first", [30, 1])
        second = tf.get_variable("second", [30, 1])
    with tf.device("/job:worker/task:0"):
        inputs = models.features()
        rows = tf.nn.embedding_lookup(first, tf.unique(inputs["other"]).y)
        more = tf.nn.embedding_lookup(second, tf.cast(rows[:, 0], tf.int64))
        models.train([tf.reduce_sum(rows, 0, keepdims=True) + 0 * inputs["dense"][:, :1]], inputs)
        tf.identity(more, name="more")
    result = _optimized()
    directions = [transfer.source for transfer in result.report.packed_transfers]
    assert "/job:ps/task:0/device:CPU:0" not in directions


def test_gradients_that_are_applied_separately_are_sent_separately() -> None:
    with tf.device("/job:ps/task:0"):
        tables = [models.table("apart{}".format(i)) for i in range(2)]
    with tf.device("/job:worker/task:0"):
        inputs = models.features()
        unique = tf.unique(inputs["other"])
        for table in tables:
            rows = tf.gather(tf.nn.embedding_lookup(table, unique.y), unique.idx)
            loss = tf.reduce_sum(rows * inputs["dense"])
            tf.train.AdagradOptimizer(0.1).minimize(loss)
    packed = _optimized().report.packed_transfers
    # Rows of the stage travel together; its ids already are one tensor, gradients stay separate.
    assert [transfer.source.split("/")[1] for transfer in packed] == ["job:ps"]


@pytest.mark.parametrize("device", ["/job:ps/task:0/device:GPU:0", ""])
def test_tensors_of_a_gpu_or_an_unknown_task_are_unchanged(device: str) -> None:
    with tf.device(device):
        tables = [models.table("placed{}".format(i)) for i in range(2)]
    with tf.device("/job:worker/task:0"):
        inputs = models.features()
        rows = [tf.nn.embedding_lookup(table, tf.unique(inputs["other"]).y) for table in tables]
        models.train([tf.gather(row, tf.unique(inputs["other"]).idx) for row in rows], inputs)
    assert _optimized().report.packed_transfers == ()
