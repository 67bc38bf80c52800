"""How many updates rows may miss is checked where ops are made that refresh them."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops.library import load_library

NOTHING = np.zeros([0], np.int64)


def refreshed(row_logs: List[str], may_miss: List[int], positions: List[int]) -> Any:
    """One row of a table in two shards, refreshed."""
    group: Dict[str, Any] = dict(
        ids=[np.array([1], np.int64)],
        positions=[NOTHING],
        shapes=[NOTHING],
        weights=[],
        num_shards=2,
        lookup_tables=[0],
        table_shards=[2],
        table_names=["users"],
        combiners=["sum"],
        layouts=["dense"],
        weighted=[False],
        default_ids=[-1],
    )
    with tf.Graph().as_default(), tf.Session() as session:
        shards = [np.full([2, 1], shard, np.float32) for shard in range(2)]
        read = [np.full([1, 1], 7, np.float32)]
        pooled, counts = load_library().group_embedding_refresh(
            tables=shards,
            read=read,
            log_position=positions,
            row_logs=row_logs,
            may_miss=may_miss,
            **group,
        )
        return session.run([pooled[0], counts])


@pytest.mark.parametrize("may_miss", [[], [0, 3]])
def test_rows_that_nothing_wrote_stay(may_miss: List[int]) -> None:
    pooled, counts = refreshed(["a", "b"], may_miss, [0, 0])
    assert pooled.tolist() == [[7]] and counts.tolist() == [1, 0]


def test_rows_without_a_position_are_all_read() -> None:
    pooled, counts = refreshed(["a", "b"], [], [-1, -1])
    assert pooled.tolist() == [[1]] and counts.tolist() == [0, 0]


@pytest.mark.parametrize(
    "row_logs, may_miss, positions, fault",
    [
        (["a", "b"], [0, -1], [0, 0], "may_miss has -1, need at least 0"),
        (["a", "b"], [1], [0, 0], "may_miss has 1 entries, need none or one for each of the 2"),
        (["a"], [], [0, 0], "row_logs has 1 entries, need one for each of the 2 shards"),
        (["a", "b"], [], [0], "log_position has 1 entries, need one for each of the 2 shards"),
    ],
)
def test_faults_are_named(
    row_logs: List[str], may_miss: List[int], positions: List[int], fault: str
) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=fault):
        refreshed(row_logs, may_miss, positions)
