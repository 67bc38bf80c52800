"""Rows of dynamic tables on ranks, for what saves, loads, exports or assigns rows by key."""

from __future__ import annotations

from typing import Any, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.resource_variables import beside
from graph_opt.dynamic.variable import DynamicTableSlot, DynamicTableVariable
from graph_opt.ops import dynamic_content, dynamic_table
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.keyed_rows import KeyedRows


class DynamicRows(KeyedRows):
    """Rows of a dynamic table that this rank has a part of, or of a slot of one.

    Rows that are written make new keys, whatever the table admits.

    Args:
      variable: The table, or the slot.
      rule: Which rank has a key.
      rank: Number of this rank.

    Example:
      >>> rows = DynamicRows(table, RowsByKey(transport.size), transport.rank)
      >>> keys, values = rows.block(0, 1000)
    """

    def __init__(
        self, variable: Union[DynamicTableVariable, DynamicTableSlot], rule: RowsByKey, rank: int
    ) -> None:
        self.name = variable.name.split(":")[0]
        self.dtype = tf.float32
        self.width = variable.dim
        self.key_dtype = tf.int64
        self.rank = rank
        self._variable = variable
        self._slots = [] if isinstance(variable, DynamicTableVariable) else [variable]
        self._table = variable if isinstance(variable, DynamicTableVariable) else variable.table
        self._rule = rule

    def num_rows(self) -> tf.Tensor:
        """See `KeyedRows`."""
        return self._table.total_shape()[0]

    def block(self, first: Any, count: Any) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `KeyedRows`."""
        with beside(self._table):
            handles = [slot.handle for slot in self._slots]
            rows = dynamic_content.export_rows(self._table.handle, handles, first, count)
        return rows.keys, rows.slot_values[0] if handles else rows.values

    def owners(self, keys: Any) -> Any:
        """See `KeyedRows`."""
        return self._rule.owner(keys)

    def places(self, keys: Any) -> Any:
        """Rows that come and go have no places that anyone else may know."""
        raise NotImplementedError("rows of {!r} are found by key alone".format(self.name))

    def clear(self) -> Any:
        """See `KeyedRows`. Slots are cleared with their table, and not without it."""
        if self._slots:
            return None if tf.executing_eagerly() else tf.no_op()
        if not tf.executing_eagerly():
            return self._table.initializer
        nothing = tf.zeros([0, self.width])
        return dynamic_table.initialize_table(self._table.handle, nothing, self._table.options_json)

    def write(self, keys: Any, rows: Any) -> Any:
        """See `KeyedRows`."""
        with beside(self._table):
            return dynamic_content.assign_rows(
                self._variable.handle, tf.cast(keys, tf.int64), tf.cast(rows, tf.float32)
            )
