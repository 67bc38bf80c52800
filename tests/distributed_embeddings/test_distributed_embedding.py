"""`DistributedEmbedding` trains as one process with whole tables and TensorFlow's own ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.sharding.in_process import run_ranks
from tests.distributed_embeddings.layer_ranks import (
    DENSE,
    ONE,
    RAGGED,
    SPARSE,
    Case,
    Table,
    trained_by_stock,
    trained_on_rank,
    whole_tables,
)

# Batches that can be divided by all numbers of ranks.
STEPS, BATCH = 100, 12
TABLES = [
    Table(30, 4, "sum"),
    Table(20, 4, "mean", RAGGED),
    Table(7, 4, "sum", SPARSE),
    Table(50, 6, None, ONE),
    Table(11, 4, None, DENSE),
    Table(9, 4, "sum"),
]
SHARED = [0, 1, 2, 3, 4, 5, 0]
CASES = {
    "basic": Case(TABLES, {}, SHARED),
    "memory_balanced": Case(TABLES, dict(strategy="memory_balanced")),
    "memory_optimized": Case(TABLES, dict(strategy="memory_optimized"), SHARED),
    "columns": Case(TABLES, dict(column_slice_threshold=60), SHARED),
    "few_tables": Case([Table(40, 7, "sum")], {}, [0, 0]),
    "rows": Case(TABLES, dict(row_slice_threshold=120), SHARED),
    "replicated": Case(TABLES, dict(data_parallel_threshold=50), SHARED),
    "all_groups": Case(
        TABLES,
        dict(data_parallel_threshold=40, row_slice_threshold=250, column_slice_threshold=50),
        SHARED,
    ),
    "model_parallel_input": Case(
        [*TABLES[:4], TABLES[5]],
        dict(dp_input=False, strategy="memory_balanced", column_slice_threshold=60),
        [0, 1, 2, 3, 4, 0],
    ),
}


def adagrad() -> Any:
    return tf.train.AdagradOptimizer(0.3)


def check_training(case: Case, ranks: int, steps: int, optimizer: Any = adagrad) -> None:
    held = run_ranks(
        ranks, lambda transport: trained_on_rank(case, transport, steps, BATCH, optimizer)
    )
    start, end = (whole_tables(case, one) for one in zip(*held))
    expected = trained_by_stock(case, start, steps, BATCH, optimizer)
    for before, ours, theirs in zip(start, end, expected):
        assert not np.array_equal(before, ours)
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", list(CASES))
def test_training_is_that_of_one_process(name: str) -> None:
    check_training(CASES[name], ranks=2, steps=20)


def test_one_rank_trains_alike() -> None:
    check_training(CASES["all_groups"], ranks=1, steps=20)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_training_over_100_steps(name: str, ranks: int) -> None:
    case = CASES[name]
    optimizers = [adagrad, lambda: tf.train.AdamOptimizer(0.05)]
    check_training(case, ranks, STEPS, optimizers[ranks % 2 or ranks // 4])
