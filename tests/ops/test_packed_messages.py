"""Malformed messages between workers and servers."""

from __future__ import annotations

from typing import Any, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.packed_embedding import group_embedding_apply_packed, group_embedding_gather
from tests.embedding.lookup_groups import in_session, table

# The format of packed bags: sums, one-byte lengths, ids of one byte or four.
BYTES = 1 << 16 | 1 << 8
WIDE = 1 << 16 | 4 << 8


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    "request_, message",
    [
        ([], r"the request has 0 numbers and ends within shard 0 of 2 \(table 'a'\)"),
        ([0, 1, 2], r"ends within shard 1 of 2 \(table 'b'\)"),
        ([0, -1, 0, 0], "ends within shard 0 of 2"),
        ([-2, 0, 0, 0], "ends within shard 0 of 2"),
        ([-1, 0, 0, 0], r"has keys of shard 0 of 2 \(table 'a'\), which goes by row"),
        ([0, 2**62, 0, 0], "ends within shard 0 of 2"),
        ([0, 1, 2, 0, 0, 5], "the request has 6 numbers, 1 more than its 2 shards need"),
        ([0, 1, 2, 0, 1, 9], r"row 9 is asked of shard 1 of 2 \(table 'b'\), which has 9 rows"),
        ([0, 1, -1, 0, 0], r"row -1 is asked of shard 0 of 2 \(table 'a'\)"),
        ([0, 0, 1, 2, 0, 0], r"malformed bags of shard 1 of 2 \(table 'b'\)"),
        ([0, 0, 1, 7, 1, 2, -1, -1, BYTES, 1, 1], "bags of other numbers of ids than it says"),
        ([0, 0, 1, 7, 1, 1, -1, -1, BYTES, 1, 9], r"row 9 is asked of shard 1 of 2 \(table 'b'\)"),
    ],
)
def test_a_malformed_request_is_an_error(
    request_: List[int], message: str, use_resource: bool
) -> None:
    tables = [table(name, 9, 4, use_resource) for name in "ab"]
    inputs = [one.handle if use_resource else one.value() for one in tables]
    request = tf.constant(request_, tf.int64)
    rows = group_embedding_gather(inputs, request, ["a", "b"], tf.float32, name="reads")
    with pytest.raises(tf.errors.InvalidArgumentError, match="reads: .*" + message):
        in_session(rows)


def update_of(*parts: Any) -> np.ndarray:
    return np.concatenate([np.frombuffer(np.asarray(p).tobytes(), np.uint8) for p in parts])


def longs(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def rows(count: int, width: int) -> np.ndarray:
    """The numbers before the rows of a shard."""
    return longs(count, width, 0, count)


def bags(row: int, widths: int = BYTES) -> np.ndarray:
    """One bag of one row."""
    return longs(1, 1, -1, -1, widths, 1, row)


def floats(count: int) -> np.ndarray:
    return np.ones([count], np.float32)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize(
    "update, message",
    [
        (update_of(longs(0, 4, 0, 0)), "has 32 bytes, fewer than the counts of its 2 shards"),
        (update_of(rows(0, 5), rows(0, 2)), r"'a'\) is 4 wide, the update has rows of 5"),
        (update_of(rows(-1, 4), rows(0, 2)), r"can not be -1 rows of shard 0 of 2 \(table 'a'\)"),
        (update_of(rows(1, 4), rows(0, 2), longs(3)), "which can not be 1 rows of shard 0"),
        (update_of(rows(2**60, 4), rows(0, 2), longs(3)), "which can not be"),
        (update_of(longs(1, 4, 0, 2), rows(0, 2), longs(3, 3, 3, 3)), "which can not be 1 rows"),
        (update_of(rows(0, 4), rows(0, 2), longs(3)), "8 more than its rows need"),
        (
            update_of(rows(1, 4), rows(1, 2), longs(3, 9), floats(6)),
            r"shard 1 of 2 \(table 'b'\) names row 9 at 0; need .* below 9",
        ),
        (update_of(rows(0, 4), rows(2, 2), longs(3, 3), floats(4)), "row 3 at 1; need ascending"),
        (update_of(rows(1, 4), rows(0, 2), longs(-2), floats(4)), "names row -2 at 0"),
        (
            update_of(rows(1, 4), longs(1, 2, 1, 7), longs(3), bags(9), floats(6)),
            r"the update of shard 1 of 2 \(table 'b'\) has row 9 of 9",
        ),
        (
            update_of(rows(1, 4), longs(1, 2, 1, 7), longs(3), bags(2**31 + 5, WIDE), floats(6)),
            r"\(table 'b'\) has row 2147483653 of 9",
        ),
        (update_of(rows(1, 4), longs(1, 2, 1, 6), longs(3), bags(8)[:6], floats(6)), "malformed"),
        (update_of(rows(1, 4), longs(1, 2, 2, 7), longs(3), bags(8), floats(6)), "malformed bags"),
        (
            update_of(rows(1, 4), longs(2, 2, 1, 7), longs(3), bags(8), floats(8)),
            "gradients of another number of bags",
        ),
    ],
)
def test_a_malformed_update_is_an_error_and_changes_nothing(
    update: np.ndarray, message: str, use_resource: bool
) -> None:
    tables = [table("a", 9, 4, use_resource), table("b", 9, 2, use_resource)]
    references = [one.handle if use_resource else one.op.outputs[0] for one in tables]
    train = group_embedding_apply_packed(
        "GradientDescent",
        references,
        [],
        [tf.constant(0.1)],
        tf.constant(update),
        ["a", "b"],
        name="train",
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(tables)
        with pytest.raises(tf.errors.InvalidArgumentError, match="train: .*" + message):
            session.run(train)
        for one, other in zip(before, session.run(tables)):
            np.testing.assert_array_equal(one, other)
