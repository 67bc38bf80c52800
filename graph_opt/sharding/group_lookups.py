"""Group lookups in tables of which every rank has a part: one exchange for all."""

from __future__ import annotations

from typing import Any, Hashable, List, Sequence, Set

from graph_opt.compat import tf
from graph_opt.embedding.lookup_builders import GroupedLookup, LookupBuilder
from graph_opt.embedding.tables import Table
from graph_opt.sharding.exchange import TableLookup, look_up
from graph_opt.sharding.transport_in_use import transport_in_use


class OfRanks(LookupBuilder):
    """The table is a `ShardedVariable`."""

    is_grouped = True

    @staticmethod
    def includes(table_devices: Set[str], ids_device: str) -> bool:
        """Devices do not tell: the variable does."""
        return False

    @staticmethod
    def group_key(table: Table) -> Hashable:
        """See `LookupBuilder`."""
        return None

    @staticmethod
    def look_up(
        lookups: Sequence[GroupedLookup], partition_strategy: str, safe: bool
    ) -> List[tf.Tensor]:
        """See `LookupBuilder`.

        Raises:
          TypeError: A table has its rows by key.
          ValueError: A lookup has a default row.
        """
        return look_up([_lookup(one) for one in lookups], transport_in_use(), safe)


def _lookup(lookup: GroupedLookup) -> TableLookup:
    table: Any = getattr(lookup.table.parts[0], "sharded_table", None)
    if table is None:
        raise TypeError(
            "table {!r} has no lookup by group: use sok.lookup_sparse or its layer".format(
                lookup.table.name
            )
        )
    if lookup.default_id is not None:
        raise ValueError(
            "default_id is {} for table {!r}, which is sharded across ranks: there a bag without "
            "ids gives zeros".format(lookup.default_id, table.name)
        )
    return TableLookup(table, lookup.ids, lookup.combiner)
