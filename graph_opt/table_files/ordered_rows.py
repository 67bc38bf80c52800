"""Tables with their rows in another order."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.table_files.row_blocks import blocks_of, rows_of_block
from graph_opt.table_files.tables import Array, Column, Source, Table

_GAP_BYTES = 16 << 10


class Arranged(NamedTuple):
    """A table in another order.

    Attributes:
      table: The table as it is then.
      keys: Of its rows, as the source has them.
      places: Where the source has the row that is first, second, and so on.
    """

    table: Table
    keys: Array
    places: Array


class OrderedSource(Source):
    """Tables of another source with their rows in another order.

    Args:
      source: The source.
      arranged: How its tables are ordered, by name.
      left_out: What else there is.
    """

    def __init__(
        self, source: Source, arranged: Dict[str, Arranged], left_out: Sequence[str]
    ) -> None:
        self._source = source
        self._arranged = arranged
        self.tables = [arranged[table.name].table for table in source.tables]
        self._before = {table.name: table for table in source.tables}
        self.left_out = left_out

    def check(self) -> str:
        """See `Source`."""
        return self._source.check()

    def keys(self, table: Table, first: int, count: int) -> Array:
        """See `Source`."""
        one = self._arranged[table.name]
        return one.keys[one.places[first : first + count]]

    def rows(self, table: Table, column: int, first: int, count: int) -> Array:
        """See `Source`."""
        before = self._before[table.name]

        def read(begin: int, size: int) -> Array:
            return self._source.rows(before, column, begin, size)

        places = self._arranged[table.name].places[first : first + count]
        return gathered(read, table.columns[column], places)


def all_keys(source: Source, table: Table) -> Array:
    """Keys of all rows of a table, in its order: 8 bytes a row."""
    if not table.has_keys:
        return np.arange(table.num_rows, dtype=np.int64)
    keys = np.empty([table.num_rows], np.int64)
    for first, count in blocks_of(table.num_rows, 8):
        keys[first : first + count] = source.keys(table, first, count)
    return keys


def gathered(read: Callable[[int, int], Array], column: Column, places: Array) -> Array:
    """Rows of a column that may lie anywhere.

    Args:
      read: Given the first and how many, gives rows that follow each other.
      column: The column.
      places: Where the rows are.
    """
    rows = np.empty([len(places), column.width], column.dtype)
    order = np.argsort(places, kind="stable")
    ascending = places[order]
    for begin, end in _near_each_other(ascending, column):
        first = int(ascending[begin])
        span = read(first, int(ascending[end - 1]) - first + 1)
        rows[order[begin:end]] = span[ascending[begin:end] - first]
    return rows


def _near_each_other(ascending: Array, column: Any) -> Iterator[Tuple[int, int]]:
    """Ranges of rows with small gaps, which are read at once, in blocks."""
    gap = max(1, _GAP_BYTES // column.row_bytes)
    most = rows_of_block(column.row_bytes)
    bounds = [0, *(1 + np.flatnonzero(np.diff(ascending) > gap)).tolist(), len(ascending)]
    for begin, end in zip(bounds[:-1], bounds[1:]):
        while begin < end:
            stop = int(np.searchsorted(ascending[begin:end], ascending[begin] + most)) + begin
            yield begin, stop
            begin = stop
