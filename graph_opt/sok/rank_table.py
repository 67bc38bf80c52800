"""Dynamic tables that are sharded across ranks by key, as variables."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional

from graph_opt.compat import tf
from graph_opt.compat.live_graph import unfinalized
from graph_opt.compat.outer_graphs import outermost_graph
from graph_opt.dynamic.keyed_rows import DynamicRows
from graph_opt.dynamic.options import DynamicTableOptions
from graph_opt.dynamic.rank_shares import share_with_ranks
from graph_opt.dynamic.variable import DynamicTableSlot, DynamicTableVariable
from graph_opt.sharding.exchange import ShardedTable
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.keyed_rows import KeyedRows
from graph_opt.sharding.own_rows import note_table
from graph_opt.sharding.sharded_variable import OnRanks
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import transport_in_use


class RankTable(OnRanks, DynamicTableVariable):
    """A table that gives a row to each key, of which this rank has those of its own keys.

    Key k is on rank k % N, whatever integer it is.

    Args:
      name: The same on all ranks.
      width: Number of columns.
      options: How rows start, come and go.
      rank: The rank that has all keys; None if they are divided.
      bank: As for `DynamicTableVariable`, as are all others.
      key_dtype: Type of the keys.
      trainable: Whether optimizers update it.
    """

    def __init__(
        self,
        name: str,
        width: int,
        options: DynamicTableOptions,
        rank: Optional[int] = None,
        bank: Optional[Callable[[], Any]] = None,
        key_dtype: Any = tf.int64,
        trainable: bool = True,
    ) -> None:
        self.transport = transport_in_use()
        self._rule = RowsByKey(self.transport.size, rank=rank)
        self._fetched: Optional[tf.Tensor] = None
        super().__init__(name, width, options, bank, key_dtype, trainable)
        note_table(self)
        graph = outermost_graph()
        if graph is not None:
            share_with_ranks(graph, self)

    @property
    def target_gpu(self) -> int:
        """The rank that has the table; -1 if all have a part."""
        return -1 if self._rule.rank is None else self._rule.rank

    @property
    def keyed_rows(self) -> KeyedRows:
        """This rank's rows by key."""
        return DynamicRows(self, self._rule, self.transport.rank)

    @property
    def sharded_table(self) -> ShardedTable:
        """What lookups need to know of it."""
        return ShardedTable(self.table_key, self, self._rule, self.dim)

    def as_fetched(self) -> tf.Tensor:
        """What `session.run` of the table gives: this rank's rows, [n, D], as `sok.export`."""
        if self._fetched is None:
            with unfinalized(self.graph), self.graph.as_default():
                with tf.control_dependencies(None), tf.name_scope("graph_opt/rows/"):
                    self._fetched = self.keyed_rows.block(0, -1)[1]
        return self._fetched

    def own_slots(self, slots: Mapping[str, Any]) -> None:
        """Lets an optimizer's slots be read and written by key, as the table itself.

        Args:
          slots: Variables; those that are not slots of this table are left alone.
        """
        for slot in slots.values():
            if isinstance(slot, DynamicTableSlot) and slot.table is self:
                slot.keyed_rows = DynamicRows(slot, self._rule, self.transport.rank)


def rank_of_mode(mode: Optional[str], transport: Transport) -> Optional[int]:
    """The rank that has all of a table; None if all ranks have a part.

    Args:
      mode: None, `distributed` or `localized:R`.
      transport: The ranks.

    Raises:
      RuntimeError: There is no such mode or rank.
    """
    if mode in (None, "distributed"):
        return None
    kind, _, rank = str(mode).partition(":")
    if kind != "localized" or not rank.isdigit():
        raise RuntimeError(
            "mode is {!r}; choose None, 'distributed' or 'localized:RANK'".format(mode)
        )
    if int(rank) >= transport.size:
        raise RuntimeError("mode is {!r}, but there are {} ranks".format(mode, transport.size))
    return int(rank)
