"""Where the rows and columns of a layer's tables are, as all ranks know it."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence, Tuple

from graph_opt.sharding.placement import RowsRule


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
