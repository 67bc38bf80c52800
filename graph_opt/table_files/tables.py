"""What all formats have in common: tables of rows, read and written a block at a time."""

from __future__ import annotations

import abc
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.table_files.row_blocks import blocks_of

Array = np.ndarray


class Column(NamedTuple):
    """Numbers that a table has for each row: its weights, or a slot of its optimizer.

    Attributes:
      optimizer: As files name it; empty for weights.
      slot: As the optimizer names it; empty for weights. Without an optimizer: what dynamic tables
        count for each row, `versions` or `freqs`.
      dtype: numpy's dtype.
      width: Numbers in a row.
      pattern: What the slot's tensor is called in a checkpoint, with {} for the table's; empty if
        it does not come from one.
    """

    optimizer: str
    slot: str
    dtype: Any
    width: int
    pattern: str = ""

    @property
    def is_slot(self) -> bool:
        """Whether it is a slot."""
        return bool(self.optimizer)

    @property
    def is_count(self) -> bool:
        """Whether it is what a dynamic table counts for each row."""
        return bool(self.slot) and not self.optimizer

    @property
    def label(self) -> str:
        """What reports call it."""
        return "{} {}".format(self.optimizer, self.slot) if self.is_slot else self.slot or "weights"

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return int(self.width * np.dtype(self.dtype).itemsize)


class Table(NamedTuple):
    """A saved table.

    Attributes:
      name: Of its variable, without ":0".
      num_rows: How many rows it has.
      columns: Weights, then slots.
      has_keys: Whether its rows are those of any keys; else row i is the row of key i.
      counters: What its optimizer counts, by name: iterations, powers of betas.
    """

    name: str
    num_rows: int
    columns: Tuple[Column, ...]
    has_keys: bool
    counters: Mapping[str, float]

    @property
    def row_bytes(self) -> int:
        """Bytes of a row with its slots, and its key if it has one."""
        return sum(column.row_bytes for column in self.columns) + 8 * self.has_keys

    @property
    def num_bytes(self) -> int:
        """Bytes of all of it."""
        return self.num_rows * self.row_bytes


class Waiting(NamedTuple):
    """Keys that a filter has counted, and that have no row yet.

    Attributes:
      keys: int64.
      versions: Of each, int64.
      frequencies: Of each, int64.
    """

    keys: Array
    versions: Array
    frequencies: Array


class Source(abc.ABC):
    """Saved tables to read.

    Attributes:
      tables: The tables that were chosen.
      left_out: What else there is.
      used_names: Names of the tables' tensors, if they are in a checkpoint: slots and keys, too.
    """

    tables: Sequence[Table]
    left_out: Sequence[str] = ()
    used_names: Sequence[str] = ()

    @abc.abstractmethod
    def check(self) -> str:
        """Compares what will be read with its checksums; says what they were, in a few words.

        Raises:
          ValueError: Something is damaged.
        """

    @abc.abstractmethod
    def keys(self, table: Table, first: int, count: int) -> Array:
        """Keys of rows [first, first + count), int64; only of a table that has keys."""

    @abc.abstractmethod
    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """Rows [first, first + count) of a column, [count, width]."""

    def is_dynamic(self, table: Table) -> bool:
        """Whether it is a dynamic table, so that its keys may be any."""
        return False

    def unnumbered_key(self, table: Table) -> Optional[int]:
        """A key of a dynamic table that is none of 0, 1, ..., n - 1; None if all are."""
        return None

    def waiting(self, table: Table) -> Waiting:
        """Keys of a dynamic table that wait for a row."""
        none = np.empty([0], np.int64)
        return Waiting(none, none, none)

    def default_values(self, table: Table, part: int) -> Array:
        """What rows of new keys start as in a part, [count, width]; of no rows if there is none."""
        return np.empty([0, table.columns[0].width], np.float32)

    def default_rows(self, table: Table, keys: Array) -> Array:
        """What rows of keys would start as, [len(keys), width]; zeros if that is not known."""
        return np.zeros([len(keys), table.columns[0].width], table.columns[0].dtype)

    def blocks(self, table: Table) -> Iterator[Tuple[Array, List[Array]]]:
        """Keys and rows of all columns, block by block."""
        if not table.num_rows:
            yield (
                np.empty([0], np.int64),
                [np.empty([0, column.width], column.dtype) for column in table.columns],
            )
            return
        widest = max(8, *(column.row_bytes for column in table.columns))
        for first, count in blocks_of(table.num_rows, widest):
            if table.has_keys:
                keys = self.keys(table, first, count)
            else:
                keys = np.arange(first, first + count, dtype=np.int64)
            columns = range(len(table.columns))
            yield keys, [self.rows(table, column, first, count) for column in columns]


class Target(abc.ABC):
    """Where tables are written to. Nothing has its final name before `publish`."""

    def arranged(self, source: Source) -> Source:
        """The source with its rows in the order in which the format has them.

        To be asked before anything else.
        """
        return source

    @abc.abstractmethod
    def stored(self, table: Table) -> Table:
        """The table as the format can hold it: with fewer columns, or other dtypes.

        To be asked for each table before anything is written.

        Raises:
          ValueError: It can hold nothing of it.
        """

    @abc.abstractmethod
    def place(self, table: Table, column: Column) -> str:
        """What a column is called there: a file, or a tensor."""

    @property
    def copied(self) -> Sequence[str]:
        """What else it gets, as it is."""
        return ()

    @property
    def other_bytes(self) -> int:
        """Bytes that it takes beside the tables."""
        return 0

    @abc.abstractmethod
    def begin(self, tables: Sequence[Table]) -> None:
        """Makes ready for tables."""

    @abc.abstractmethod
    def write(self, table: Table, first: int, keys: Array, rows: Sequence[Array]) -> None:
        """Writes the rows of a block, in order, one table after another."""

    @abc.abstractmethod
    def finish(self) -> Source:
        """Brings all to the disk, and gives it back to be read."""

    @abc.abstractmethod
    def publish(self) -> None:
        """Gives all its final name."""

    @abc.abstractmethod
    def discard(self) -> None:
        """Removes what has no final name."""


class Choice(NamedTuple):
    """A table that was asked for.

    Attributes:
      name: In the source.
      new_name: In the target.
    """

    name: str
    new_name: str
