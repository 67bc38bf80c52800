"""`tf.train.Saver` for dynamic tables: DeepRec's tensors, one set for each table, part and slot.

    <name>-keys, -values, -versions, -freqs            rows, by remainder of their keys by 1,000
    <name>-keys_filtered, -versions_filtered, -freqs_filtered
                                                       keys that were counted, but have no row yet
    <name>-partition_offset, -partition_filter_offset  where the keys of each remainder begin
    <name>-default_values                              where rows of new keys start, if in a matrix

A table and its slots are saved by one op, as they are at one moment; another one restores them,
each part its own keys, from however many parts the checkpoint has.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.compat.resource_variables import (
    PartitionedVariable,
    VariableOfResource,
    on_device_of,
)
from graph_opt.compat.savers import OurSaveable, SaverParts, build_savers_with
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops import dynamic_checkpoint
from graph_opt.ops.dynamic_checkpoint import TABLE

_KEYS = "-keys"


def save_dynamic_tables(handle: tf.Tensor) -> None:
    """From now on, savers know dynamic tables and their slots, and exports of a graph have them.

    Args:
      handle: Of a table of the graph.
    """
    build_savers_with(_PARTS)
    if not is_eager(handle):
        export_users_graph(handle.graph)


class TableSaveable(OurSaveable):
    """A table, a part of one or a slot, as savers see it.

    Args:
      variable: The `DynamicTableVariable` or `DynamicTableSlot`.
      name: In checkpoints.
      changes: Whether it is saved and restored as what has changed.

    Attributes:
      table: The table, or that of the slot.
      slot: The slot, or None.
      changes: As given.
    """

    def __init__(self, variable: Any, name: str, changes: bool = False) -> None:
        is_slot = hasattr(variable, "table")
        self.slot = variable if is_slot else None
        self.table = variable.table if is_slot else variable
        self.changes = changes
        super().__init__(variable, name, name + _KEYS, self.table.device)


def saveables_of(variable: Any, name: Optional[str], changes: bool = False) -> Optional[List[Any]]:
    """What a saver saves of a table or slot, each part on its own; None for other variables.

    Args:
      variable: Anything that a saver is given.
      name: In checkpoints; None for the variable's own.
      changes: Whether to save and restore what has changed.
    """
    if isinstance(variable, PartitionedVariable):
        return [
            TableSaveable(part, _name(name, part) or _own_name(part), changes)
            for part in variable.parts
        ]
    if isinstance(variable, VariableOfResource):
        return [TableSaveable(variable, name or _own_name(variable), changes)]
    return None


def _own_name(variable: Any) -> str:
    name: str = variable.op.name
    return name


def _name(name: Optional[str], part: Any) -> Optional[str]:
    return None if name is None else "{}/part_{}".format(name, part.part)


class _Group(NamedTuple):
    """What a saver has of one table."""

    table: Any
    rows: Optional[TableSaveable]
    slots: List[TableSaveable]

    @property
    def members(self) -> List[TableSaveable]:
        return ([] if self.rows is None else [self.rows]) + self.slots

    @property
    def handles(self) -> List[Any]:
        return [one.op.handle for one in self.slots]


def _groups(saveables: List[Any]) -> List[_Group]:
    by_table: Dict[int, List[TableSaveable]] = {}
    for saveable in saveables:
        by_table.setdefault(id(saveable.table), []).append(saveable)
    groups = []
    for members in by_table.values():
        rows = [one for one in members if one.slot is None]
        slots = [one for one in members if one.slot is not None]
        groups.append(_Group(members[0].table, rows[0] if rows else None, slots))
    return groups


def _save(prefix: Any, saveables: List[Any]) -> Tuple[List[Any], List[Any]]:
    prefixes, written = [], []
    for number, group in enumerate(_groups(saveables)):
        changes = group.members[0].changes
        prefixes.append(tf.strings.join([prefix, "_table-{:05d}".format(number)]))
        with on_device_of(group.table.handle):
            operation = dynamic_checkpoint.save(
                prefixes[-1],
                group.table.handle,
                group.handles,
                tensor_name="" if group.rows is None else group.rows.name,
                slot_names=[one.name for one in group.slots],
                key_dtype=group.table.key_dtype,
                evict=not changes,
                changes=changes,
            )
        written.append(operation)
    return prefixes, written


def _restore(prefix: Any, saveables: List[Any]) -> None:
    for group in _groups(saveables):
        table, changes = group.table, group.members[0].changes
        # A table that is restored starts empty, and slots that the checkpoint lacks start anew.
        before = [] if changes else [member.op.initializer for member in group.members]
        with tf.control_dependencies(before), on_device_of(table.handle):
            name = table.table_key if group.rows is None else group.rows.name
            restored = dynamic_checkpoint.restore(
                prefix,
                table.handle,
                group.handles,
                tensor_name=_whole_name(name, table),
                slot_names=[_slot_name(one.name, name) for one in group.slots],
                part=table.part,
                num_parts=table.num_parts,
                owner_rule=table.owner_rule,
                rows=group.rows is not None,
                changes=changes,
            )
        for member in group.members:
            member.restored = restored


def _whole_name(name: str, table: Any) -> str:
    """Name of a table, given that of one of its parts."""
    suffix = "/part_{}".format(table.part)
    return name[: -len(suffix)] if table.num_parts > 1 and name.endswith(suffix) else name


def _slot_name(name: str, table_name: str) -> str:
    """A slot's name with a place for that of its table or part: keras puts more before it."""
    return name.replace(table_name, TABLE, 1)


_PARTS = SaverParts(saveables_of, _save, _restore)
