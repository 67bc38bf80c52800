"""What a model learns from real ratings is the same with lookups that are fused or run ahead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.bench.training.job import Job, Outcome, train
from tools.bench.training.sessions import (
    ASYNC,
    BOTH,
    FUSED,
    FUSING_MODES,
    PREFETCHING_MODES,
    STOCK,
    Prefetching,
    SessionOptions,
)
from tools.bench.workloads.movielens import HELD_OUT_EVERY, TABLES, Ratings, movielens_workload
from tools.bench.workloads.workload import Learning

MOST_AUC_APART = 0.005


def _trained(ratings: Ratings, mode: str) -> Outcome:
    options = SessionOptions(mode=mode, prefetching=Prefetching(threads_num=2, capacity=2))
    learning = Learning("adagrad", learning_rate=0.02, seed=5)
    return train(Job(movielens_workload(ratings), learning, options, steps=0))


@pytest.mark.slow
def test_auc_is_that_of_stock(shared_data: Path) -> None:
    folder = shared_data / "ml-100k"
    if not folder.is_dir():
        pytest.skip("no MovieLens rows beside the checkout")
    ratings = Ratings(folder)
    stock = _trained(ratings, STOCK)
    assert stock.score.auc > 0.70
    for mode in (ASYNC, FUSED, BOTH):
        optimized = _trained(ratings, mode)
        assert optimized.report is not None
        assert len(optimized.report.fused) == (len(TABLES) if mode in FUSING_MODES else 0)
        assert bool(optimized.report.moved) == (mode in PREFETCHING_MODES)
        assert stock.steps == optimized.steps
        assert stock.score.rows == optimized.score.rows == ratings.liked.size // HELD_OUT_EVERY
        assert abs(stock.score.auc - optimized.score.auc) <= MOST_AUC_APART, mode
