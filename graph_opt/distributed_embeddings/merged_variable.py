"""Variables with rows of several tables of a layer: those that a rank has of equal width."""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Sequence

from graph_opt.sharding.exchange import ShardedTable
from graph_opt.sharding.keyed_rows import ShardedRows, TablePart
from graph_opt.sharding.placement import RowsOnRank
from graph_opt.sharding.sharded_variable import ShardedVariable


class Member(NamedTuple):
    """A table, or columns of one, whose rows a rank has in a variable.

    Attributes:
      name: Name of the whole table.
      rows: Which rank that is, and how many rows.
      first_row: The row of that rank's variable that is the first one.
      first_column: The first of the table's columns that the variable has.
      table_width: Columns of the whole table.
    """

    name: str
    rows: RowsOnRank
    first_row: int
    first_column: int
    table_width: int


class MergedVariable(ShardedVariable):
    """This rank's rows of several tables, one table after another.

    All ranks have the variable, with as many rows as their tables have, or none.

    Args:
      rows_of_ranks: How many rows each rank has.
      members: The tables of all ranks, in the order of their rows.
      **arguments: Of `ShardedVariable`.
    """

    de_local = True

    def __init__(
        self, rows_of_ranks: Sequence[int], members: Sequence[Member], **arguments: Any
    ) -> None:
        self.rows_of_ranks = tuple(rows_of_ranks)
        self.members = tuple(members)
        super().__init__(**arguments)

    @property
    def keyed_rows(self) -> Any:
        """None: rows have keys only within their table."""
        return None

    @property
    def table_parts(self) -> List[TablePart]:
        """What it has of which tables."""
        return self.table_parts_in(self)

    def table_parts_in(self, part: Any) -> List[TablePart]:
        """See `ShardedVariable`."""
        slot = _suffix(part.name, self.name)
        return [self._part_of(member, member.name + slot, part) for member in self.members]

    def own_slots(self, slots: Mapping[str, Any]) -> None:
        """See `ShardedVariable`."""
        for slot in slots.values():
            if slot.shape == self.shape:
                slot.table_parts = self.table_parts_in(slot)

    def rows_in(self, part: Any) -> Any:
        """See `ShardedVariable`; None."""
        return None

    def table_on(self, rank: int) -> ShardedTable:
        """What lookups need to know of the rows that a rank has, as one table.

        Its owner has all of it, and so may pool its bags.
        """
        rows = RowsOnRank(self.rows_of_ranks[rank], self.num_gpus, rank)
        name = "{}/part_{}".format(self.name.split(":")[0], rank)
        return ShardedTable(name, self, rows, int(self.shape[1]))

    def _part_of(self, member: Member, name: str, part: Any) -> TablePart:
        rows = ShardedRows(name, part, member.rows, self.transport.rank, member.first_row)
        return TablePart(name, rows, member.first_column, member.table_width)


def _suffix(name: str, of: str) -> str:
    """What the name of a slot adds to that of its variable."""
    slot, variable = name.split(":")[0], of.split(":")[0]
    found = slot.find(variable)
    if found < 0:
        return "/" + slot
    return slot[found + len(variable) :] or ("/" + slot[:found].strip("/") if found else "")
