"""What a rank has of a dynamic table, for the savers of all ranks."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.live_graph import add_control_inputs, edited
from graph_opt.compat.resource_variables import on_device_of
from graph_opt.dynamic.saving import restored
from graph_opt.ops import dynamic_checkpoint
from graph_opt.ops.dynamic_checkpoint import TABLE, Stored
from graph_opt.sharding.rank_shares import RankShare, TableShares
from graph_opt.sharding.table_savers import save_shares


def share_with_ranks(graph: Any, table: Any) -> None:
    """From now on, savers of a graph save and restore what all ranks have of a table.

    Args:
      graph: The graph.
      table: The table, which has a `transport`.
    """
    if table.transport.size > 1:
        save_shares(graph, table.transport, _RankShares(table))


class _RankShares(TableShares):
    """The rows of one rank."""

    def __init__(self, table: Any) -> None:
        self.name = table.op.name
        self._table = table

    @property
    def usual_share(self) -> RankShare:
        """See `TableShares`."""
        slots = [slot.op.name for slot in self._table.slots.values()]
        patterns = [name.replace(self._table.table_key, TABLE, 1) for name in slots]
        return RankShare(self.name, self.name, tuple(sorted(zip(slots, patterns))))

    def is_initialized(self, share: RankShare) -> tf.Tensor:
        """See `TableShares`."""
        variables = [self._table, *self._slots(share)]
        return tf.reduce_all([one.is_initialized() for one in variables])

    def save(self, prefix: tf.Tensor, share: RankShare) -> Any:
        """See `TableShares`."""
        table = self._table
        part = "{}/part_{}".format(share.name or table.table_key, table.transport.rank)
        slots = self._slots(share)
        stored = Stored(
            part if share.name else "",
            [pattern.replace(TABLE, part) for _, pattern in share.slots],
            table.key_dtype,
            slots=[slot.stored for slot in slots],
        )
        handles = [slot.handle for slot in slots]
        with on_device_of(table.handle):
            return dynamic_checkpoint.save(prefix, table.handle, handles, stored, evict=True)

    def restore(self, prefix: tf.Tensor, share: RankShare) -> Any:
        """See `TableShares`."""
        table, slots = self._table, self._slots(share)
        stored = Stored(
            share.name or table.table_key,
            [pattern for _, pattern in share.slots],
            table.key_dtype,
            slots=[slot.stored for slot in slots],
        )
        # A table that is restored starts empty, and slots that the checkpoint lacks start anew.
        before = [one.initializer.name for one in ([table] if share.name else []) + slots]
        with edited(table.handle.graph), on_device_of(table.handle):
            done = restored(
                prefix, table, [slot.handle for slot in slots], stored, bool(share.name)
            )
            add_control_inputs(done.graph, done.name, before)
        return done

    def _slots(self, share: RankShare) -> List[Any]:
        by_name = {slot.op.name: slot for slot in self._table.slots.values()}
        return [by_name[variable] for variable, _ in share.slots]
