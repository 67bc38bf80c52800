"""Which lookups move, and the reason given for each that does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from tests.control_flow import control_flow_v2
from tests.passes import models


@pytest.fixture
def control_flow_v1() -> Any:
    """Builds control flow with Switch, Merge and Enter in place of functions, for one test."""
    with control_flow_v2(False):
        yield


def _train_lookup(ids: Any, inputs: Any) -> Any:
    rows = tf.nn.embedding_lookup(models.table(), ids)
    models.train([tf.reshape(rows, [-1, models.WIDTH])], inputs)
    return rows


def test_a_placeholder_upstream_is_named() -> None:
    inputs = models.features()
    offset = tf.placeholder(tf.int64, [], name="offset")
    _train_lookup(inputs["other"] + offset - offset, inputs)
    (lookup,) = models.optimized().report.lookups
    assert lookup.refusal is not None
    assert (lookup.refusal["code"], lookup.refusal["node"]) == ("placeholder_upstream", "offset")


def test_a_lookup_on_constant_ids_stays() -> None:
    inputs = models.features()
    _train_lookup(tf.constant([1] * models.BATCH), inputs)
    assert models.codes(models.optimized()) == ["no_io_dependence"]


def test_state_written_upstream_keeps_the_lookup_in_main() -> None:
    inputs = models.features()
    counter = tf.get_variable("counter", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.assign_add(counter, tf.reduce_sum(inputs["other"]))]):
        ids = tf.identity(inputs["other"])
    _train_lookup(ids, inputs)
    assert models.codes(models.optimized()) == ["stateful_upstream"]


def test_a_control_edge_from_main_keeps_the_lookup_there() -> None:
    inputs = models.features()
    counter = tf.get_variable("counter", [], tf.int64, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.assign_add(counter, 1, name="count")]):
        ids = tf.identity(inputs["other"])
    _train_lookup(ids, inputs)
    (lookup,) = models.optimized().report.lookups
    assert lookup.refusal is not None
    assert (lookup.refusal["code"], lookup.refusal["node"]) == ("control_edge_from_main", "count")


def test_a_dense_variable_before_the_lookup_keeps_it_in_main() -> None:
    inputs = models.features()
    shift = tf.get_variable("shift", [], initializer=tf.ones_initializer(), use_resource=False)
    ids = tf.cast(tf.cast(inputs["other"], tf.float32) * shift, tf.int64)
    _train_lookup(ids, inputs)
    assert models.codes(models.optimized()) == ["dense_variable_upstream"]


@pytest.mark.parametrize("threads_num, expected", [(1, None), (2, "seeded_random_with_threads")])
def test_seeded_draws_before_the_lookup_need_one_thread(threads_num: int, expected: Any) -> None:
    inputs = models.features()
    kept = tf.random_uniform(tf.shape(inputs["other"]), seed=3) < 0.5
    _train_lookup(tf.where(kept, inputs["other"], tf.zeros_like(inputs["other"])), inputs)
    assert models.codes(models.optimized(threads_num=threads_num)) == [expected]


def test_a_while_loop_before_the_lookup_keeps_it_in_main(control_flow_v1: Any) -> None:
    inputs = models.features()
    ids = tf.while_loop(
        lambda i, _: i < 2,
        lambda i, ids: (i + 1, ids),
        [tf.constant(0), inputs["other"]],
    )[1]
    ids.set_shape([None])
    _train_lookup(ids, inputs)
    assert models.codes(models.optimized()) == ["loop_upstream"]


def test_a_cond_before_the_lookup_moves_entirely(control_flow_v1: Any) -> None:
    inputs = models.features()
    some = tf.reduce_sum(inputs["other"]) > 0
    ids = tf.cond(some, lambda: inputs["other"] + 0, lambda: inputs["other"] * 0)
    _train_lookup(ids, inputs)
    result = models.optimized()
    assert models.codes(result) == [None]
    assert any(n.name.startswith("async_embedding/cond") for n in result.graph_def.node)


def test_a_cond_whose_inner_nodes_main_reads_stays(control_flow_v1: Any) -> None:
    inputs = models.features()
    some = tf.reduce_sum(inputs["other"]) > 0
    inside = []

    def branch() -> Any:
        inside.append(inputs["other"] + 0)
        return inside[0]

    ids = tf.cond(some, branch, lambda: inputs["other"] * 0)
    rows = _train_lookup(ids, inputs)
    tf.identity(inside[0], name="reader")
    assert rows is not None
    assert models.codes(models.optimized()) == ["boundary_in_control_flow"]


def test_a_functional_cond_before_the_lookup_moves_as_one_node() -> None:
    inputs = models.features()
    some = tf.reduce_sum(inputs["other"]) > 0
    with control_flow_v2(True):
        ids = tf.cond(some, lambda: inputs["other"] + 0, lambda: inputs["other"] * 0)
    ids.set_shape([None])
    _train_lookup(ids, inputs)
    assert models.codes(models.optimized()) == [None]


def test_ids_of_two_io_stages_stay_in_main() -> None:
    first, second = models.features(), models.features(seed=1)
    _train_lookup(first["other"] + second["other"] - second["other"], first)
    assert models.codes(models.optimized()) == ["several_io_stages"]


def test_two_io_stages_get_a_stage_each() -> None:
    first, second = models.features(), models.features(seed=1)
    table = models.table()
    pooled = [tf.nn.embedding_lookup(table, inputs["other"]) for inputs in (first, second)]
    models.train(pooled, first)
    result = models.optimized()
    assert [stage.name for stage in result.stages] == ["async_embedding", "async_embedding_1"]
    assert len({stage.io_source for stage in result.stages}) == 2


def test_without_an_io_stage_the_error_says_how_to_add_one() -> None:
    models.safe_model()
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"graph_opt\.staged.*infer_io_stage"):
        models.optimized(infer_io_stage=False)


def test_a_staged_buffer_is_the_io_stage() -> None:
    inputs = staged(models.features())
    _train_lookup(inputs["other"], inputs)
    result = models.optimized(infer_io_stage=False)
    (stage,) = result.stages
    assert not stage.inferred
    put = next(n for n in result.graph_def.node if n.name == "async_embedding/TensorBufferPut")
    assert put.attr["_stage_upstream"].s.decode() == stage.io_stage != ""


def test_a_queue_is_an_io_stage_when_one_is_inferred() -> None:
    queue = tf.FIFOQueue(4, [tf.int64, tf.float32, tf.float32], shapes=[[], [4], []])
    other, dense, label = queue.dequeue_many(models.BATCH)
    _train_lookup(other, {"dense": dense, "label": label})
    (stage,) = models.optimized().stages
    assert stage.inferred and stage.io_source == other.op.name


def test_a_collective_before_the_lookup_keeps_it_in_main() -> None:
    inputs = models.features()
    shared = tf.raw_ops.CollectiveReduce(
        input=inputs["other"], group_size=1, group_key=1, instance_key=1, merge_op="Add",
        final_op="Id", subdiv_offsets=[0],
    )  # fmt: skip
    _train_lookup(shared, inputs)
    assert models.codes(models.optimized()) == ["collective_upstream"]


def test_a_python_function_before_the_lookup_moves() -> None:
    inputs = models.features()
    ids = tf.py_func(lambda ids: np.asarray(ids), [inputs["other"]], tf.int64)
    ids.set_shape([None])
    _train_lookup(ids, inputs)
    assert models.codes(models.optimized()) == [None]


def test_hash_tables_are_read_from_both_sides() -> None:
    inputs = models.features()
    keys = tf.range(models.VOCABULARY, dtype=tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, keys)
    vocabulary = tf.lookup.StaticHashTable(initializer, 0)
    _train_lookup(vocabulary.lookup(inputs["other"]), inputs)
    assert models.codes(models.optimized()) == [None]
