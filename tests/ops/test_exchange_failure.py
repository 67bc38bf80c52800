"""A rank without a batch: all ranks end the step with the same error, and the next one goes on."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.exchange import exchange_failure, exchange_lookup
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds
from graph_opt.ops.packed_embedding import ShardPlacement
from graph_opt.sharding.in_process import InProcessTransport, run_ranks

RANKS = 2
ROWS = 10
ERRORS: Dict[int, Tuple[int, str]] = {
    1: (tf.errors.DATA_LOSS, "row 17 is torn"),
    2: (tf.errors.OUT_OF_RANGE, "End of sequence"),
}


class Rank:
    """A table of 10 rows, row i on rank i % 2; and what a rank does without a batch."""

    def __init__(self, transport: InProcessTransport) -> None:
        part = np.arange(ROWS, dtype=np.float32).reshape(-1, 1)[transport.rank :: RANKS]
        self.ids = tf.placeholder(tf.int64, [None])
        self.ended = tf.placeholder_with_default(False, [])
        self.code = tf.placeholder(tf.int32, [])
        self.text = tf.placeholder(tf.string, [])
        attributes = GroupAttributes(
            lookup_tables=[0],
            table_shards=[RANKS],
            table_names=["table"],
            combiners=["sum"],
            layouts=["dense"],
            weighted=[False],
            default_ids=[-1],
            partition_strategies=["mod"],
        )
        nothing = tf.zeros([0, 2], tf.int64)
        ids = GroupIds([tf.expand_dims(self.ids, 1)], [nothing], [tf.zeros([2], tf.int64)], [])
        (self.pooled,) = exchange_lookup(
            [tf.constant(part)],
            ids,
            attributes,
            ShardPlacement([ROWS // RANKS] * RANKS, list(range(RANKS)), RANKS),
            transport.rank,
            [1],
            [tf.float32],
            transport.all_to_all,
            "exchange",
            self.ended,
        )
        self.failure = exchange_failure(
            self.code, self.text, RANKS, transport.all_to_all, "exchange"
        )

    def look_up(self, session: Any, ids: List[int], ended: bool = False) -> Any:
        """The rows, or the error's code and message."""
        try:
            rows = session.run(self.pooled, {self.ids: ids, self.ended: ended})
        except tf.errors.OpError as error:
            return error.error_code, error.message
        return rows[:, 0].tolist()

    def fail(self, session: Any, code: int, text: str) -> Any:
        agreed = session.run(self.failure, {self.code: code, self.text: text})
        return agreed[0], agreed[1].decode(), agreed[2]


def steps(transport: InProcessTransport) -> List[Any]:
    with tf.Graph().as_default(), tf.Session() as session:
        rank = Rank(transport)
        if transport.rank == 0:
            return [rank.look_up(session, [step, 9]) for step in range(3)] + [
                rank.fail(session, tf.errors.ABORTED, "lost"),
                rank.look_up(session, [], ended=True),
                rank.look_up(session, [], ended=True),
            ]
        return [
            rank.look_up(session, [5]),
            rank.fail(session, *ERRORS[1]),
            rank.fail(session, *ERRORS[2]),
            rank.fail(session, tf.errors.CANCELLED, "closed"),
            rank.look_up(session, [7, 8]),
            rank.look_up(session, [], ended=True),
        ]


def test_all_ranks_get_the_error_of_a_rank_without_a_batch() -> None:
    first, second = run_ranks(RANKS, steps, 60)
    assert first[0] == [0, 9] and second[0] == [5]
    for step in (1, 2):
        code, text = ERRORS[step]
        assert second[step] == (code, "rank 1: " + text, True)
        assert first[step][0] == code and "rank 1: " + text in first[step][1]
    assert first[3] == second[3] == (tf.errors.CANCELLED, "rank 1: closed", False)
    # Ranks whose input has ended wait for the last one.
    assert first[4] == [] and second[4] == [7, 8]
    for code, message in (first[5], second[5]):
        assert code == tf.errors.OUT_OF_RANGE
        assert "the input of all ranks has ended" in message


def test_no_error_cannot_be_sent() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        sent = exchange_failure(0, "", 1, lambda tensor, splits, _: (tensor, splits), "exchange")
        with pytest.raises(tf.errors.InvalidArgumentError, match="code is 0"):
            session.run(sent)
