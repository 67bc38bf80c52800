"""Which rank has which rows and columns of a table.

A table of V rows is divided by a rows rule, and a slice of its columns may have a rule of its own:

    rule        owner of row i         its local row       local rows on rank r
    mod         i % N                  i // N              V // N + (r < V % N)
    div         contiguous blocks      i - first of owner  V // N + (r < V % N)
    blocks      blocks of given sizes  i - first of owner  as given
    rank        one rank               i                   V on that rank, 0 elsewhere
    replicated  every rank             i                   V

Nothing here knows TensorFlow. Keys and rows are ints, numpy arrays or tensors of them, and results
are of the same kind; only blocks of given sizes find no owners of tensors. Keys must lie in [0, V):
the ops check them.
"""

from __future__ import annotations

import abc
from typing import Any, List, NamedTuple, Sequence, Tuple

import numpy as np

MOD = "mod"
DIV = "div"


class RowsRule(abc.ABC):
    """How the rows of a table, or of a slice of its columns, are sharded across ranks.

    Attributes:
      num_rows: Rows of the table.
      num_ranks: Ranks among which they are divided.
    """

    def __init__(self, num_rows: int, num_ranks: int) -> None:
        if num_rows < 0:
            raise ValueError("a table cannot have {} rows".format(num_rows))
        if num_ranks < 1:
            raise ValueError("a table cannot be sharded across {} ranks".format(num_ranks))
        self.num_rows = num_rows
        self.num_ranks = num_ranks

    @abc.abstractmethod
    def owner(self, keys: Any) -> Any:
        """The rank that has each key."""

    @abc.abstractmethod
    def local_row(self, keys: Any) -> Any:
        """The row of each key in the part of its owner."""

    @abc.abstractmethod
    def key(self, rank: int, local_rows: Any) -> Any:
        """The key in each row of a rank's part: the inverse of `local_row`."""

    @abc.abstractmethod
    def num_local_rows(self, rank: int) -> int:
        """Rows of a rank's part."""

    def keys(self, rank: int, first: int = 0, count: int = -1) -> np.ndarray:
        """The keys in a rank's part, row by row, as int64.

        Args:
          rank: The rank.
          first: The local row to start with.
          count: Number of rows; -1 for all that follow.

        Example:
          >>> ModRows(num_rows=5, num_ranks=2).keys(rank=1)
          array([1, 3])
        """
        rows = self.num_local_rows(rank)
        last = rows if count < 0 else min(rows, first + count)
        return np.asarray(self.key(rank, np.arange(first, last, dtype=np.int64)), np.int64)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self).__name__, tuple(sorted(vars(self).items()))))

    def __repr__(self) -> str:
        values = ("{}={!r}".format(name, value) for name, value in sorted(vars(self).items()))
        return "{}({})".format(type(self).__name__, ", ".join(values))


class ModRows(RowsRule):
    """Row i is on rank i % N, whatever the number of rows: frequent small keys are spread.

    Example:
      >>> rule = ModRows(num_rows=5, num_ranks=2)
      >>> rule.owner(3), rule.local_row(3), rule.num_local_rows(0)
      (1, 1, 3)
    """

    def owner(self, keys: Any) -> Any:
        """See `RowsRule`."""
        return keys % self.num_ranks

    def local_row(self, keys: Any) -> Any:
        """See `RowsRule`."""
        return keys // self.num_ranks

    def key(self, rank: int, local_rows: Any) -> Any:
        """See `RowsRule`."""
        return local_rows * self.num_ranks + rank

    def num_local_rows(self, rank: int) -> int:
        """See `RowsRule`."""
        return _share(self.num_rows, self.num_ranks, rank)


class DivRows(RowsRule):
    """Contiguous blocks of rows; the first V % N ranks have one row more, as TensorFlow's `div`.

    Example:
      >>> rule = DivRows(num_rows=5, num_ranks=2)
      >>> rule.owner(3), rule.local_row(3), rule.num_local_rows(0)
      (1, 0, 3)
    """

    def owner(self, keys: Any) -> Any:
        """See `RowsRule`."""
        fewer, larger = divmod(self.num_rows, self.num_ranks)
        # Of the two quotients the greater is right on either side of the last larger block.
        in_larger = keys // (fewer + 1)
        if not fewer:
            return in_larger
        return _greater(in_larger, (keys - larger) // fewer)

    def local_row(self, keys: Any) -> Any:
        """See `RowsRule`."""
        return keys - self._first(self.owner(keys))

    def key(self, rank: int, local_rows: Any) -> Any:
        """See `RowsRule`."""
        return local_rows + self._first(rank)

    def num_local_rows(self, rank: int) -> int:
        """See `RowsRule`."""
        return _share(self.num_rows, self.num_ranks, rank)

    def _first(self, ranks: Any) -> Any:
        fewer, larger = divmod(self.num_rows, self.num_ranks)
        return ranks * fewer + _lesser(ranks, larger)


class BlockRows(RowsRule):
    """Contiguous blocks of any sizes, rank after rank.

    Args:
      rows_of_ranks: Rows of each rank.

    Example:
      >>> rule = BlockRows([5, 0, 2])
      >>> rule.owner(6), rule.local_row(6), rule.num_local_rows(1)
      (2, 1, 0)
    """

    def __init__(self, rows_of_ranks: Sequence[int]) -> None:
        super().__init__(sum(rows_of_ranks), len(rows_of_ranks))
        self.rows_of_ranks = tuple(rows_of_ranks)

    def owner(self, keys: Any) -> Any:
        """See `RowsRule`."""
        owners = np.searchsorted(np.cumsum(self.rows_of_ranks), keys, side="right")
        return owners if isinstance(keys, np.ndarray) else int(owners)

    def local_row(self, keys: Any) -> Any:
        """See `RowsRule`."""
        firsts = np.cumsum((0,) + self.rows_of_ranks)[self.owner(keys)]
        return keys - (firsts if isinstance(keys, np.ndarray) else int(firsts))

    def key(self, rank: int, local_rows: Any) -> Any:
        """See `RowsRule`."""
        return local_rows + self.first_key(rank)

    def num_local_rows(self, rank: int) -> int:
        """See `RowsRule`."""
        return self.rows_of_ranks[rank]

    def first_key(self, rank: int) -> int:
        """The key of a rank's first row."""
        return sum(self.rows_of_ranks[:rank])


class _WholeTable(RowsRule):
    """All rows in one place, under their own numbers."""

    def __init__(self, num_rows: int, num_ranks: int, rank: int) -> None:
        super().__init__(num_rows, num_ranks)
        self.rank = rank

    def owner(self, keys: Any) -> Any:
        """See `RowsRule`."""
        return keys * 0 + self.rank

    def local_row(self, keys: Any) -> Any:
        """See `RowsRule`."""
        return keys

    def key(self, rank: int, local_rows: Any) -> Any:
        """See `RowsRule`."""
        return local_rows


class RowsOnRank(_WholeTable):
    """All rows on one rank.

    Attributes:
      rank: That rank.
    """

    def __init__(self, num_rows: int, num_ranks: int, rank: int) -> None:
        super().__init__(num_rows, num_ranks, rank)
        if not 0 <= rank < num_ranks:
            raise ValueError("there is no rank {} among {} ranks".format(rank, num_ranks))

    def num_local_rows(self, rank: int) -> int:
        """See `RowsRule`."""
        return self.num_rows if rank == self.rank else 0


class ReplicatedRows(_WholeTable):
    """All rows on every rank: lookups are local, and each rank counts as the owner of its copy.

    Attributes:
      rank: The rank that asks, and so the owner that it sees.
    """

    def __init__(self, num_rows: int, num_ranks: int, rank: int = 0) -> None:
        super().__init__(num_rows, num_ranks, rank)

    def num_local_rows(self, rank: int) -> int:
        """See `RowsRule`."""
        return self.num_rows


class Slice(NamedTuple):
    """Some columns of a table and where their rows are.

    Attributes:
      rows: How the rows are divided.
      first_column: The first column of the table that it has.
      width: Number of columns.
    """

    rows: RowsRule
    first_column: int
    width: int

    def shape_on(self, rank: int) -> Tuple[int, int]:
        """Shape of a rank's part."""
        return self.rows.num_local_rows(rank), self.width


class TablePlacement(NamedTuple):
    """Where a table is.

    Attributes:
      name: Name of the table, the same on all ranks.
      shape: Rows and columns of the whole table.
      slices: Its columns, from left to right; a single slice unless columns are divided.
    """

    name: str
    shape: Tuple[int, int]
    slices: Tuple[Slice, ...]

    @property
    def is_replicated(self) -> bool:
        """Whether every rank has the whole table."""
        return all(isinstance(part.rows, ReplicatedRows) for part in self.slices)


def sharded(name: str, shape: Tuple[int, int], num_ranks: int, rule: str = MOD) -> TablePlacement:
    """Rows sharded across all ranks.

    Args:
      name: Name of the table.
      shape: Rows and columns.
      num_ranks: Number of ranks.
      rule: `mod` or `div`.

    Raises:
      ValueError: The rule is unknown, or a number is out of range.

    Example:
      >>> divided("items", (5, 16), num_ranks=2).slices[0].shape_on(rank=1)
      (2, 16)
    """
    rules = {MOD: ModRows, DIV: DivRows}
    if rule not in rules:
        raise ValueError("no rows rule {!r}; choose mod or div".format(rule))
    return _in_one_slice(name, shape, rules[rule](shape[0], num_ranks))


def on_rank(name: str, shape: Tuple[int, int], num_ranks: int, rank: int) -> TablePlacement:
    """The whole table on one rank."""
    return _in_one_slice(name, shape, RowsOnRank(shape[0], num_ranks, rank))


def replicated(name: str, shape: Tuple[int, int], num_ranks: int) -> TablePlacement:
    """The whole table on every rank."""
    return _in_one_slice(name, shape, ReplicatedRows(shape[0], num_ranks))


def by_columns(
    name: str, shape: Tuple[int, int], num_ranks: int, ranks: Sequence[int]
) -> TablePlacement:
    """Columns divided as evenly as possible, the earlier slices the wider.

    Args:
      name: Name of the table.
      shape: Rows and columns.
      num_ranks: Number of ranks.
      ranks: The rank of each slice; a rank may have several.

    Raises:
      ValueError: There are more slices than columns, none at all, or a rank does not exist.

    Example:
      >>> [part.width for part in by_columns("items", (5, 16), 3, ranks=[2, 0, 1]).slices]
      [6, 5, 5]
    """
    if not 1 <= len(ranks) <= shape[1]:
        raise ValueError(
            "table {!r} has {} columns; {} slices are not possible".format(
                name, shape[1], len(ranks)
            )
        )
    slices: List[Slice] = []
    first = 0
    for place, rank in enumerate(ranks):
        width = _share(shape[1], len(ranks), place)
        slices.append(Slice(RowsOnRank(shape[0], num_ranks, rank), first, width))
        first += width
    return TablePlacement(name, shape, tuple(slices))


def _in_one_slice(name: str, shape: Tuple[int, int], rows: RowsRule) -> TablePlacement:
    return TablePlacement(name, shape, (Slice(rows, 0, shape[1]),))


def _share(total: int, parts: int, part: int) -> int:
    return total // parts + (part < total % parts)


def _greater(left: Any, right: Any) -> Any:
    # Of ints, arrays and tensors alike.
    return (left + right + abs(left - right)) // 2


def _lesser(left: Any, right: int) -> Any:
    return (left + right - abs(left - right)) // 2
