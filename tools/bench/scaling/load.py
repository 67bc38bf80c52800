"""How many rows a step asks of each rank, in expectation, for ids as uneven as Zipf's law says.

Ranks draw their batches alike and alone, so a rank asks for row k of a table with a chance of
q[k] = 1 - (1 - p[k]) ** draws, however often it has the id: each row travels once. The rows that it
asks of rank o are the sum of q over the rows of o, and all ranks ask alike. Nothing is sampled.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple

import numpy as np

from tools.bench.workloads.wide.data import CARDINALITY, DataOptions

MOD = "mod"
CONTIGUOUS = "contiguous"
WHOLE_TABLES = "whole_tables"
REPLICATED = "replicated"
_ID_BYTES = 8
_REQUEST_BYTES = 4  # of a row of a sharded table, by its number there
_FLOAT_BYTES = 4
# As in tools/bench/workloads/wide/data.py.
_HASH_MULTIPLIER = 0x9E3779B1
_HASH_BITS = 32
_FREQUENT = 1 << 20

Array = np.ndarray


class Lookups(NamedTuple):
    """The lookups of a step, alike on all ranks.

    Attributes:
      asked: [rows], the chance that a rank asks for a row of a table; alike for all tables.
      tables: number of tables.
      width: columns of each.
    """

    asked: Array
    tables: int
    width: int

    @property
    def rows(self) -> float:
        """Rows that a rank asks for in a step."""
        return float(self.tables * self.asked.sum())

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return _FLOAT_BYTES * self.width


class Load(NamedTuple):
    """What a step asks of ranks.

    Attributes:
      ranks: how many there are.
      of_rank: [ranks], rows that each rank asks of this one.
      lookups: what they are of.
    """

    ranks: int
    of_rank: Array
    lookups: Lookups

    @property
    def unevenness(self) -> float:
        """Rows asked of the busiest rank, over the mean."""
        return float(self.of_rank.max() / self.of_rank.mean())

    def sent(self) -> Array:
        """[ranks], bytes that a rank sends to others: ids, rows for others, their gradients."""
        from_others = self.lookups.rows - self.of_rank
        for_others = (self.ranks - 1) * self.of_rank
        row = self.lookups.row_bytes
        return from_others * (_REQUEST_BYTES + row) + for_others * row

    def received(self) -> Array:
        """[ranks], bytes that a rank receives: ids of others, their gradients, rows."""
        from_others = self.lookups.rows - self.of_rank
        for_others = (self.ranks - 1) * self.of_rank
        row = self.lookups.row_bytes
        return for_others * (_REQUEST_BYTES + row) + from_others * row

    def passing(self) -> float:
        """Bytes that enter or leave the busiest rank, whichever are more."""
        return float(np.maximum(self.sent(), self.received()).max())

    def through(self) -> float:
        """Bytes that enter and leave the busiest rank, together."""
        return float((self.sent() + self.received()).max())


def zipf(rows: int, exponent: float) -> Array:
    """Chances of the rows of a table whose keys are numbered by how frequent they are."""
    chances: Array = np.arange(1, rows + 1, dtype=np.float64) ** -exponent
    return chances / chances.sum()


def hashed_zipf(options: DataOptions) -> Array:
    """Chances of the buckets of "wide"'s columns, whose keys are hashed."""
    edges = np.arange(1, _FREQUENT + 2, dtype=np.float64) ** (1.0 - options.zipf)
    chances = edges[:-1] - edges[1:]
    ids = np.arange(_FREQUENT, dtype=np.uint64)
    product = (ids * np.uint64(_HASH_MULTIPLIER)) & np.uint64((1 << _HASH_BITS) - 1)
    buckets = (product * np.uint64(options.buckets)) >> np.uint64(_HASH_BITS)
    found: Array = np.bincount(buckets.astype(np.int64), chances, options.buckets)
    rare = edges[-1] - CARDINALITY ** (1.0 - options.zipf)
    found += rare / options.buckets  # so many ids that every bucket gets its share
    return found / found.sum()


def lookups_of(chances: Array, draws: float, tables: int, width: int) -> Lookups:
    """The lookups of a rank that draws so many ids for each table."""
    return Lookups(-np.expm1(draws * np.log1p(-np.minimum(chances, 1 - 1e-12))), tables, width)


def load_of(lookups: Lookups, placement: str, ranks: int) -> Load:
    """What a step asks of each rank.

    Args:
      lookups: of a rank.
      placement: `mod`, `contiguous` or `whole_tables`.
      ranks: how many there are.
    """
    return Load(ranks, PLACEMENTS[placement](lookups, ranks), lookups)


def replicated_bytes(lookups: Lookups, ranks: int) -> float:
    """Bytes that a rank sends if every rank has all tables, and all gather all gradients."""
    return (ranks - 1) * lookups.rows * (_ID_BYTES + lookups.row_bytes)


def _mod(lookups: Lookups, ranks: int) -> Array:
    rows = np.arange(len(lookups.asked))
    found: Array = lookups.tables * np.bincount(rows % ranks, lookups.asked, ranks)
    return found


def _contiguous(lookups: Lookups, ranks: int) -> Array:
    parts: List[Array] = np.array_split(lookups.asked, ranks)
    return np.array([lookups.tables * part.sum() for part in parts])


def _whole_tables(lookups: Lookups, ranks: int) -> Array:
    """Tables are dealt to the ranks, as many to each as possible."""
    tables = np.bincount(np.arange(lookups.tables) % ranks, minlength=ranks)
    found: Array = tables * lookups.asked.sum()
    return found


PLACEMENTS: Dict[str, Callable[[Lookups, int], Array]] = {
    MOD: _mod,
    CONTIGUOUS: _contiguous,
    WHOLE_TABLES: _whole_tables,
}
