"""What `group_lookup` looks up: sizes, and ids with their distributions.

Only NumPy is imported, since peers without TensorFlow read this as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ZIPF = "zipf"
UNIFORM = "uniform"
DISTRIBUTIONS = (ZIPF, UNIFORM)
FORWARD = "forward"
TRAIN = "train"
CALL = "tf_call"
COMBINER = "mean"
LEARNING_RATE = 0.05

_EXPONENT = 1.2
_FLOAT_BYTES = 4
# Batches take turns until they have touched more than what caches hold: a batch of 512 repeated
# would never leave the second level.
_ROTATION_BYTES = 96 << 20
_MOST_BATCHES = 4096
_CALL_IDS = 1 << 15
_MOST_REPLICAS = 4


class Size(NamedTuple):
    """Tables, their shape, and what a step looks up in each of them."""

    tables: int
    rows: int
    dimension: int
    batch: int
    ids_per_row: int

    @property
    def ids(self) -> int:
        """Ids of one table in a step."""
        return self.batch * self.ids_per_row

    @property
    def looked_up(self) -> int:
        """Rows that a step reads, of all tables."""
        return self.tables * self.ids

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return self.dimension * _FLOAT_BYTES

    @property
    def batches(self) -> int:
        """Different batches, which take turns."""
        needed = _ROTATION_BYTES // (self.looked_up * self.row_bytes) + 1
        return max(2, min(needed, _MOST_BATCHES))

    @property
    def replicas(self) -> int:
        """Batches that one call of a TensorFlow session looks up, so that calls cost little."""
        return max(1, min(_CALL_IDS // self.ids, _MOST_REPLICAS, self.batches))


def ids_of(size: Size, distribution: str) -> np.ndarray:
    """Ids [batches, tables, ids], int64, the same in every run.

    Args:
        size: what is looked up.
        distribution: one of `DISTRIBUTIONS`.
    """
    random = np.random.RandomState(7)
    shape = (size.batches, size.tables, size.ids)
    if distribution == UNIFORM:
        return random.randint(0, size.rows, shape).astype(np.int64)
    return (random.zipf(_EXPONENT, shape) % size.rows).astype(np.int64)
