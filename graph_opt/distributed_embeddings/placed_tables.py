"""Where the rows and columns of a layer's tables are, as all ranks know it."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.sharding.keyed_rows import ShardedRows, TablePart
from graph_opt.sharding.placement import ReplicatedRows, RowsRule
from graph_opt.sharding.whole_tables import Column, Place, WholeTable

# Blocks never have more elements than this, however large a chunk may be.
_MOST_ELEMENTS = 1 << 22


class PlacedColumns(NamedTuple):
    """Some columns of a table.

    Attributes:
      rows: Which rank has which rows of them.
      first_column: The first one.
      width: Their number.
      variable: This rank's variable that has them, [rows, width], perhaps beside those of other
        tables; None where this rank has no rows.
      first_row: The row of `variable` that is the first of this rank's part.
    """

    rows: RowsRule
    first_column: int
    width: int
    variable: Any
    first_row: int


class PlacedTable(NamedTuple):
    """A table of a layer.

    Attributes:
      name: Of the table, for messages.
      shape: Rows and columns.
      dtype: Of its elements.
      parts: All columns from left to right: the same parts on all ranks, but for their variables.
    """

    name: str
    shape: Tuple[int, int]
    dtype: Any
    parts: Sequence[PlacedColumns]

    def whole(self, rank: int, chunk: int) -> WholeTable:
        """The table, for what reads and writes all of it.

        Args:
          rank: Number of this rank.
          chunk: Most elements in memory at once.
        """
        most_rows = max(1, min(chunk, _MOST_ELEMENTS) // max(1, self.shape[1]))
        columns = tuple(self._column(one, rank) for one in self.parts)
        return WholeTable(self.name, self.shape[0], 0, columns, most_rows)

    def _column(self, one: PlacedColumns, rank: int) -> Column:
        part, rule = one.variable, one.rows
        if part is None:
            part = tf.TensorSpec([0, one.width], self.dtype, "")
        if isinstance(rule, ReplicatedRows):
            rule = ReplicatedRows(rule.num_rows, rule.num_ranks, rank)
        rows = ShardedRows(part.name, part, rule, rank, one.first_row)
        place = Place(rows.name, one.first_row)
        return Column(place, TablePart(self.name, rows, one.first_column, self.shape[1]))
