"""Layers with their tables placed in every way."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from tests.distributed_embeddings.layer_ranks import DENSE, ONE, RAGGED, SPARSE, Case, Table

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


def adam() -> Any:
    return tf.train.AdamOptimizer(0.05)
