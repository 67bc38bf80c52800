"""What runs ahead of the step, and what main takes of it."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from tests.control_flow import control_flow_v2
from tests.passes import models
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.prefetch.stage_drawings import stage_drawn


def ids() -> Any:
    """A batch of ids alone."""
    dataset = tf.data.Dataset.from_tensor_slices([1, 2]).batch(2)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def table(name: str = "t") -> Any:
    """A table."""
    return tf.get_variable(name, [5, 2], use_resource=False)


def trained(rows: Any) -> Any:
    """A step on the sum of rows."""
    return tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(rows))


def ran(**options: Any) -> Passed:
    """The pass on the default graph."""
    return ran_pass("async_embedding", models.config(**options))


def codes(passed: Passed) -> List[Optional[Tuple[str, str]]]:
    """For each lookup None if it moved, or the code and the node."""
    found = [lookup.refusal for lookup in passed.report.lookups]
    return [None if each is None else (each["code"], each["node"]) for each in found]


def test_a_lookup_before_and_after() -> None:
    trained(tf.nn.embedding_lookup(table(), ids()))
    passed = ran()
    assert stage_drawn(passed) == lines("""
        - IteratorGetNext = IteratorGetNext(OneShotIterator)
        + IteratorGetNext = IteratorGetNext(A/fetch_guard/handle_0, ^A/fetch_guard)
        - Sum = Sum(emb/Identity, Const)
        + Sum = Sum(A/Take:1, Const)
        - g/Sum_grad/Shape = Shape(emb/Identity)
        + g/Sum_grad/Shape = Shape(A/Take:1)
        - g/emb_grad/Reshape_1 = Reshape(IteratorGetNext, g/emb_grad/ExpandDims)
        + g/emb_grad/Reshape_1 = Reshape(A/Take, g/emb_grad/ExpandDims)
        + A/IteratorGetNext = IteratorGetNext(OneShotIterator)
        + io/Put = Put(A/IteratorGetNext)
        + io/Take = Take()
        + A/emb = GatherV2(t/read, io/Take, emb/axis)
        + A/emb/Identity = Identity(A/emb)
        + A/Put = Put(io/Take, A/emb/Identity)
        + A/Take = Take()
        + A/fetch_guard = Assert(A/fetch_guard/condition, A/fetch_guard/message)
    """)
    assert passed.name_map.taken == {
        "IteratorGetNext:0": "async_embedding/TensorBufferTake:0",
        "embedding_lookup/Identity:0": "async_embedding/TensorBufferTake:1",
    }
    hidden = {"embedding_lookup", "embedding_lookup/Identity", "IteratorGetNext"}
    assert passed.name_map.prefetched == hidden


def test_behind_a_stage_of_the_script_no_other_is_inserted() -> None:
    trained(tf.nn.embedding_lookup(table(), staged(ids())))
    drawn = stage_drawn(ran(infer_io_stage=False))
    assert not any(line.startswith("+ io/") for line in drawn)


def test_a_table_read_twice_moves_twice_and_its_ids_cross_once() -> None:
    batch = ids()
    shared = table()
    rows = [tf.nn.embedding_lookup(shared, batch) for _ in range(2)]
    trained(rows[0] * rows[1])
    (put,) = (line for line in stage_drawn(ran()) if line.startswith("+ A/Put"))
    assert put == "+ A/Put = Put(io/Take, A/emb/Identity, A/emb_1/Identity)"


def test_several_threads_take_their_turn_at_the_batches() -> None:
    trained(tf.nn.embedding_lookup(table(), ids()))
    drawn = stage_drawn(ran(threads_num=2))
    assert "+ io/Take = Take(^A/Turn)" in drawn
    assert "+ A/Put = Put(io/Take, A/emb/Identity, A/place, ^A/TurnEnd)" in drawn


def test_what_waited_for_the_lookup_waits_for_the_take() -> None:
    rows = tf.nn.embedding_lookup(table(), ids())
    with tf.control_dependencies([rows]):
        tf.no_op(name="behind")
    trained(rows)
    drawn = stage_drawn(ran())
    assert "- behind = NoOp(^emb/Identity)" in drawn and "+ behind = NoOp(^A/taken)" in drawn


def test_a_check_of_the_ids_moves_with_them() -> None:
    batch = ids()
    with tf.control_dependencies([tf.debugging.assert_non_negative(batch, name="check")]):
        checked = tf.identity(batch, name="checked")
    trained(tf.nn.embedding_lookup(table(), checked))
    passed = ran()
    assert codes(passed) == [None]
    (assertion,) = (name for name in passed.view.of_op("Assert") if name.startswith("async") and
                    "check" in name)  # fmt: skip
    assert assertion in passed.view.ancestors(["async_embedding/checked"])


def test_devices_and_colocation_move_with_nodes() -> None:
    with tf.device("/device:CPU:1"):
        shared = table()
    with tf.device("/device:CPU:0"):
        trained(tf.nn.embedding_lookup(shared, ids()))
    view = ran().view
    gather = view.nodes["async_embedding/embedding_lookup"]
    assert gather.device == "/device:CPU:1"
    assert list(gather.attr["_class"].list.s) == [b"loc:@t"]


def behind_a_placeholder(batch: Any) -> Any:
    return batch + tf.placeholder(batch.dtype, [], name="fed")


def behind_a_variable(batch: Any) -> Any:
    return batch + tf.get_variable("shift", [], batch.dtype, tf.zeros_initializer(),
                                   use_resource=False)  # fmt: skip


def behind_a_loop(batch: Any) -> Any:
    with control_flow_v2(False):
        return tf.while_loop(lambda x: x[0] < 0, lambda x: [x + 1], [batch])


def behind_a_constant_loop_that_reads_the_batch(batch: Any) -> Any:
    with control_flow_v2(False):
        _, total = tf.while_loop(
            lambda step, _: step < 2,
            lambda step, total: (step + 1, total + batch[0]),
            [tf.constant(0), tf.constant(0)],
        )
    return batch + total


def behind_a_write(batch: Any) -> Any:
    seen = tf.get_variable("seen", [], batch.dtype, tf.zeros_initializer(), use_resource=False)
    with tf.control_dependencies([tf.assign_add(seen, tf.reduce_sum(batch), name="count")]):
        return tf.identity(batch)


@pytest.mark.parametrize(
    "change, code, node",
    [
        (behind_a_placeholder, "placeholder_upstream", "fed"),
        (behind_a_variable, "dense_variable_upstream", "add"),
        (behind_a_loop, "loop_upstream", "while/Enter"),
        (behind_a_constant_loop_that_reads_the_batch, "loop_upstream", "while/Exit_1"),
        (behind_a_write, "stateful_upstream", "count"),
    ],
)
def test_why_a_lookup_stays(change: Any, code: str, node: str) -> None:
    trained(tf.nn.embedding_lookup(table(), change(ids())))
    passed = ran()
    assert codes(passed) == [(code, node)]
    assert not passed.change.added


def test_a_lookup_that_stays_does_not_hold_back_another() -> None:
    batch = ids()
    stays = tf.nn.embedding_lookup(table("stays"), behind_a_placeholder(batch))
    trained(tf.nn.embedding_lookup(table(), batch) * stays)
    passed = ran()
    assert sorted(map(str, codes(passed))) == ["('placeholder_upstream', 'fed')", "None"]
    assert "async_embedding/TensorBufferPut" in passed.view


def test_a_graph_without_lookups_stays_and_is_told_so() -> None:
    tf.reduce_sum(ids())
    passed = ran()
    assert not passed.change.added
    assert any("no embedding lookup was found" in line for line in passed.report.warnings)
