"""What the parts of this pass know of a table that is to be sharded across ranks."""

from __future__ import annotations

import dataclasses
from typing import Tuple

from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.sharding.placement import RowsRule


@dataclasses.dataclass(frozen=True)
class ShardedTable:
    """A table of which each rank is to have a part.

    Attributes:
      table: As the user made it: its name, dtype and whole shape.
      lookups: All lookups in it, each of this table alone.
      update: How it is trained.
      slots: Names of the variable ops of the optimizer's slots, in the order of the update.
      rows: How rows are sharded across ranks.
      rank: Number of this rank.
    """

    table: Table
    lookups: Tuple[Lookup, ...]
    update: SparseUpdate
    slots: Tuple[str, ...]
    rows: RowsRule
    rank: int

    @property
    def name(self) -> str:
        """Name of the variable's op, which is the same on all ranks."""
        return self.table.name

    @property
    def width(self) -> int:
        """Number of columns."""
        shape = self.table.shape
        assert shape is not None and shape[1] is not None, "only tables of known shape are sharded"
        return shape[1]

    @property
    def local_rows(self) -> int:
        """Rows of this rank's part."""
        return self.rows.num_local_rows(self.rank)

    @property
    def variables(self) -> Tuple[str, ...]:
        """Names of all variable ops that are sharded: the table's and those of its slots."""
        return (self.name, *self.slots)
