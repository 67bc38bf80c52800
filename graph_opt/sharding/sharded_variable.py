"""Variables that hold a rank's rows of a table."""

from __future__ import annotations

import weakref
from typing import Any, ClassVar, List, Mapping, MutableMapping, Tuple, Type

from graph_opt.compat.ascending_rows import take_rows_of_ranks_as_they_are
from graph_opt.compat.outer_graphs import outermost_graph
from graph_opt.compat.resource_variables import NamedInCheckpoints
from graph_opt.embedding.lookup_builders import LookupBuilder
from graph_opt.reporting.warnings_given import warn_once
from graph_opt.sharding.equal_updates import note_update
from graph_opt.sharding.exchange import ShardedTable
from graph_opt.sharding.group_lookups import OfRanks
from graph_opt.sharding.keyed_rows import KeyedRows, ShardedRows, TablePart
from graph_opt.sharding.own_rows import note_table
from graph_opt.sharding.placement import RowsOnRank, RowsRule
from graph_opt.sharding.table_savers import save_whole_tables
from graph_opt.sharding.transport import Transport


class OnRanks:
    """A variable of which each rank has its own rows.

    Attributes:
      transport: How ranks reach each other.
      lookup_builder: How group lookups find its rows (`embedding.lookup_builders`).
    """

    lookup_builder: ClassVar[Type[LookupBuilder]] = OfRanks
    transport: Transport

    @property
    def global_gpu_id(self) -> int:
        """Number of this rank."""
        return self.transport.rank

    @property
    def num_gpus(self) -> int:
        """Number of ranks."""
        return self.transport.size


class ShardedVariable(OnRanks, NamedInCheckpoints):
    """This rank's rows of a table, by key.

    Args:
      transport: How ranks reach each other.
      **arguments: Of the variable that has the rows.
    """

    def __init__(self, transport: Transport, **arguments: Any) -> None:
        self.transport = transport
        super().__init__(**arguments)
        note_table(self)
        if transport.size > 1:
            take_rows_of_ranks_as_they_are(note_update)
        graph = outermost_graph()
        if graph is not None:
            save_whole_tables(graph, transport, self)

    def name_in_checkpoints(self) -> str:
        """Rows of one rank are not taken for those of another, or for a whole table."""
        transport = self.transport
        if transport.size == 1:
            return super().name_in_checkpoints()
        warn_once(
            "tf.train.Checkpoint saves and restores this rank's rows of sharded tables such as "
            "'{}', so each rank needs files of its own; sok.dump, or a tf.train.Saver, "
            "saves whole tables".format(self.name.split(":")[0]),
        )
        return "rows_of_rank_{}_of_{}".format(transport.rank, transport.size)

    @property
    def keyed_rows(self) -> KeyedRows:
        """This rank's rows by key."""
        return self.rows_in(self)

    def own_slots(self, slots: Mapping[str, Any]) -> None:
        """Lets an optimizer's slots be read and written by key, as the table itself.

        Args:
          slots: Variables; those of another shape than the table's are left alone.
        """
        for slot in slots.values():
            if slot.shape == self.shape:
                slot.keyed_rows = self.rows_in(slot)

    def rows_in(self, part: Any) -> KeyedRows:
        """The rows of the table, or of a slot, by key."""
        raise NotImplementedError

    def table_parts_in(self, part: Any) -> List[TablePart]:
        """What the variable, or a slot of it, has of which tables."""
        rows = self.rows_in(part)
        return [TablePart(rows.name, rows, 0, rows.width)]


class StaticVariable(ShardedVariable):
    """This rank's part of a table, all of whose rows exist from the start.

    Args:
      rows: How rows are divided.
      width: Number of columns.
      **arguments: Of `ShardedVariable`.
    """

    def __init__(self, rows: RowsRule, width: int, **arguments: Any) -> None:
        self.rows = rows
        self._width = width
        # What sessions know of when rows were touched (`sok.touched_rows`).
        self.touched_rows: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        super().__init__(**arguments)

    @property
    def global_shape(self) -> Tuple[int, int]:
        """Shape of the whole table."""
        return self.rows.num_rows, self._width

    @property
    def target_gpu(self) -> int:
        """The rank that has the table; -1 if all have a part."""
        return self.rows.rank if isinstance(self.rows, RowsOnRank) else -1

    @property
    def sharded_table(self) -> ShardedTable:
        """What lookups need to know of it."""
        return ShardedTable(self.name.split(":")[0], self, self.rows, self._width)

    def rows_in(self, part: Any) -> ShardedRows:
        """See `ShardedVariable`."""
        return ShardedRows(part.name.split(":")[0], part, self.rows, self.transport.rank)

    def key_map(self, ids: Any) -> Any:
        """The local rows of ids, on the ranks that have them."""
        return self.rows.local_row(ids)
