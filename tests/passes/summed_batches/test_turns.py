"""Each batch of a step waits for the gradients of the one before it, and for nothing more."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass
from tests.passes.summed_batches.batch_models import config, dataset

SHORT = {"summed_batches/": "", "gradients/": "g/", "tuple/control_dependency": "of"}


def build(lookup: bool = False) -> None:
    """A layer and, if so, a lookup."""
    features = tf.data.make_one_shot_iterator(dataset(4)).get_next()
    weights = tf.get_variable("w", [5, 1], use_resource=False)
    loss = tf.reduce_sum(tf.matmul(features["dense"], weights))
    if lookup:
        table = tf.get_variable("t", [40, 4], use_resource=False)
        loss += tf.reduce_sum(tf.nn.embedding_lookup(table, features["other"]))
    tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def turned(made: Any, lookup: bool = False) -> Passed:
    build(lookup)
    return ran_pass("take_turns", made)


def test_a_batch_begins_when_the_one_before_has_its_gradients() -> None:
    assert turned(config(3)).drawn(SHORT) == lines("""
        - 1/MatMul = MatMul(1/IteratorGetNext, w/read)
        + 1/MatMul = MatMul(begin/1/1/IteratorGetNext/0, w/read)
        - 1/g/MatMul_grad/MatMul_1 = MatMul(1/IteratorGetNext, 1/g/Sum_grad/Tile)
        + 1/g/MatMul_grad/MatMul_1 = MatMul(begin/1/1/IteratorGetNext/0, 1/g/Sum_grad/Tile)
        - 2/MatMul = MatMul(2/IteratorGetNext, w/read)
        + 2/MatMul = MatMul(begin/2/2/IteratorGetNext/0, w/read)
        - 2/g/MatMul_grad/MatMul_1 = MatMul(2/IteratorGetNext, 2/g/Sum_grad/Tile)
        + 2/g/MatMul_grad/MatMul_1 = MatMul(begin/2/2/IteratorGetNext/0, 2/g/Sum_grad/Tile)
        + done/0 = NoOp(^g/MatMul_grad/of_1)
        + begin/1/1/IteratorGetNext/0 = Identity(1/IteratorGetNext, ^done/0)
        + done/1 = NoOp(^1/g/MatMul_grad/of_1)
        + begin/2/2/IteratorGetNext/0 = Identity(2/IteratorGetNext, ^done/1)
    """)


def test_batches_that_run_ahead_begin_at_the_take() -> None:
    gates = [line for line in turned(config(2, ahead=True)).drawn(SHORT) if "Identity" in line]
    assert gates == lines("""
        + begin/1/summed_batches_io/TensorBufferTake/5 = \
          Identity(summed_batches_io/TensorBufferTake:5, ^done/0)
    """)


def test_a_lookup_that_is_one_op_for_all_batches_does_not_take_turns() -> None:
    passed = turned(config(2, grouped=True), lookup=True)
    gated = [line for line in passed.drawn(SHORT) if line.startswith("+ begin")]
    assert gated and not any("lookup" in line for line in gated)
    (fused,) = passed.view.of_op("GroupEmbeddingLookup")
    assert not any(
        name.startswith("summed_batches/done") for name in passed.view.ancestors([fused])
    )


def test_a_step_of_one_batch_has_no_turns() -> None:
    build()
    assert ran_pass("take_turns", None).is_idle


def test_parts_of_one_batch_have_no_turns() -> None:
    made = config(2)
    made.graph_options.optimizer_options.micro_batch_rule = "parts"
    assert turned(made).is_idle
