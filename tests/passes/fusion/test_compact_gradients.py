"""Gradients as large as their table are computed for the rows that occur in them."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest

from graph_opt.compat import tf
from tests.passes import fused_models
from tests.passes.drawings import lines
from tests.passes.one_pass import Passed, ran_pass

SHORT = {
    "compact_gradients/0/": "C/",
    "gradients/embedding_lookup_grad/": "g/",
    "Adam/update_one/ApplyAdam": "apply",
}


def compacted(change: Callable[[Any], Any], made: Any = None) -> Passed:
    """The pass on a table whose gradient is made a tensor, and changed."""
    rows = tf.nn.embedding_lookup(fused_models.table("one"), fused_models.batches()["one"])
    optimizer = tf.train.AdamOptimizer(0.1)
    ((gradient, table),) = optimizer.compute_gradients(tf.reduce_sum(tf.square(rows)))
    optimizer.apply_gradients([(change(tf.convert_to_tensor(gradient)), table)])
    return ran_pass("compact_gradients", made or fused_models.config())


def added(passed: Passed) -> List[str]:
    return [line for line in passed.drawn(SHORT) if "Const()" not in line and line[0] == "+"]


def test_what_scales_all_rows_scales_those_that_occur() -> None:
    drawn = added(compacted(lambda gradient: gradient * tf.linspace(0.5, 1.5, 4)))
    assert set(drawn).issuperset(
        lines("""
            + C/unique_rows = Unique(g/Reshape_1)
            + C/rows/UnsortedSegmentSum = UnsortedSegmentSum(g/Reshape, C/unique_rows:1, C/count)
            + C/rows/mul = Mul(C/rows/UnsortedSegmentSum, linspace/Slice)
            + C/all_rows = UnsortedSegmentSum(C/rows/mul, C/unique_rows, C/num_rows)
        """)
    )


def test_only_the_update_reads_the_result() -> None:
    passed = compacted(lambda gradient: gradient * 0.5)
    assert passed.moved() == [
        "Adam/update_one/ApplyAdam:9 mul -> compact_gradients/0/all_rows",
    ]
    (line,) = passed.report.changes
    assert line == "1 gradient as large as the table computed for the rows that occur"


@pytest.mark.parametrize(
    "change",
    [
        lambda gradient: gradient + 1.0,  # Rows that do not occur move, too.
        lambda gradient: tf.reverse(gradient, [0]),
        lambda gradient: tf.cumsum(gradient, 0),
    ],
)
def test_what_moves_other_rows_too_is_left_alone(change: Callable[[Any], Any]) -> None:
    assert compacted(change).drawn() == []


def test_nothing_happens_where_updates_are_not_fused() -> None:
    made = fused_models.config(fuse_update=False)
    assert compacted(lambda gradient: gradient * 0.5, made).is_idle
