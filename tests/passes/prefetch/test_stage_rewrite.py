"""The rewritten graph in a stock session: guarded fetches, control edges, devices, order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from graph_opt.session.live import optimize_graph
from tests.passes import models


def _node(result: Any, name: str) -> Any:
    return next(node for node in result.graph_def.node if node.name == name)


def test_a_stock_fetch_inside_prefetch_fails_and_consumes_no_batch() -> None:
    inputs, _ = models.safe_model(resource=True)
    graph = tf.get_default_graph()
    report = optimize_graph(graph, models.config())
    unique = next(op for op in graph.get_operations() if op.type == "Unique")
    with tf.Session() as session:
        first_labels = np.random.RandomState(0)
        session.run(tf.global_variables_initializer())
        for hidden in (unique.outputs[0], inputs["label"]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="prefetch region"):
                session.run(hidden)
        for scope in ("async_embedding_io", "async_embedding"):
            session.run(graph.get_operation_by_name(scope + "/TensorBufferPut"))
        label = session.run(report.fetches[inputs["label"].name])
    first_labels.randint(0, models.VOCABULARY, [models.ROWS, 3])
    first_labels.randint(1, models.VOCABULARY, [models.ROWS])
    first_labels.rand(models.ROWS, 4)
    expected = first_labels.randint(0, 2, [models.ROWS])[: models.BATCH]
    np.testing.assert_array_equal(label, expected)


def test_an_op_of_main_that_waited_for_prefetch_waits_for_what_is_taken() -> None:
    """Not for the take itself, which would take another batch where what it took is fed."""
    inputs = models.features()
    ids = tf.identity(inputs["other"], name="ids")
    rows = tf.nn.embedding_lookup(models.table(), ids)
    with tf.control_dependencies([ids]):
        tf.no_op(name="after_ids")
    models.train([rows], inputs)
    result = models.optimized()
    taken = _node(result, "async_embedding/taken")
    assert list(_node(result, "after_ids").input) == ["^" + taken.name]
    assert list(taken.input) == ["async_embedding/TensorBufferTake"]


def test_clones_keep_device_and_colocation() -> None:
    with tf.device("/job:ps/task:0"):
        table = models.table()
    with tf.device("/job:worker/task:1"):
        inputs = models.features()
        rows = tf.nn.embedding_lookup(table, inputs["other"], name="lookup")
        models.train([rows], inputs)
    result = models.optimized()
    gather = next(
        node for node in result.graph_def.node
        if node.op == "GatherV2" and node.name.startswith("async_embedding/")
    )  # fmt: skip
    assert gather.device.startswith("/job:ps/task:0")
    assert gather.attr["_class"].list.s == [b"loc:@table"]
    for op in ("TensorBufferPut", "TensorBufferTake", "TensorBufferCancel"):
        assert _node(result, "async_embedding/" + op).device == "/job:worker/task:1/device:CPU:0"


@pytest.mark.parametrize("unordered", [False, True])
def test_several_threads_take_batches_in_turn(unordered: bool) -> None:
    inputs = staged(models.features())
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
    models.train([rows], inputs)
    result = models.optimized(infer_io_stage=False, threads_num=3, unordered=unordered)
    put = _node(result, "async_embedding/TensorBufferPut")
    take = next(
        node for node in result.graph_def.node
        if node.op == "TensorBufferTake" and node.name.startswith("async_embedding/staged")
    )  # fmt: skip
    rest = list(put.input[len(put.attr["dtypes"].list.type) :])
    if unordered:
        assert put.attr["num_places"].i == 0 and not rest and not take.input
        return
    assert put.attr["num_places"].i == 1
    assert rest == ["async_embedding/place", "^async_embedding/TensorBufferTurnEnd"]
    assert list(take.input) == ["^async_embedding/TensorBufferTurn"]
    turn_end = _node(result, "async_embedding/TensorBufferTurnEnd")
    assert list(turn_end.input) == ["async_embedding/place", "^" + take.name]


def test_options_reach_the_buffer_and_the_threads() -> None:
    models.safe_model()
    result = models.optimized(threads_num=3, capacity=5, unordered=True, timeout_millis=700)
    put = _node(result, "async_embedding/TensorBufferPut")
    assert put.attr["_stage_threads"].i == 3
    for node in (put, _node(result, "async_embedding/TensorBufferTake")):
        assert node.attr["shared_capacity"].i == 5
        assert node.attr["timeout_millis"].i == 700


def test_the_take_knows_the_static_shapes() -> None:
    inputs = models.features()
    rows = tf.nn.embedding_lookup(models.table(), inputs["other"])
    models.train([rows], inputs)
    report = optimize_graph(tf.get_default_graph(), models.config())
    taken = tf.get_default_graph().get_tensor_by_name(report.fetches[rows.name])
    assert taken.shape.as_list() == [None, models.WIDTH]
