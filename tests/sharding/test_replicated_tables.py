"""Replicated tables that two processes train through Horovod, fused and not."""

from __future__ import annotations

import pytest

from tests.horovod_processes import NEEDS_HOROVOD, check_all_done


@pytest.mark.slow
@NEEDS_HOROVOD
def test_fused_ranks_train_as_stock_ones_do() -> None:
    check_all_done(2, "tests.sharding.replicated_ranks")


@pytest.mark.slow
@NEEDS_HOROVOD
@pytest.mark.parametrize("way", ["fused", "sharded", "sok", "plain", "called"])
def test_rank_0_alone_may_fetch_summaries(way: str) -> None:
    check_all_done(2, "tests.sharding.summary_ranks", way)


@pytest.mark.slow
@NEEDS_HOROVOD
def test_tables_stay_whole_where_horovod_does_not_gather_all_slices() -> None:
    check_all_done(2, "tests.sharding.unsharded_ranks")
