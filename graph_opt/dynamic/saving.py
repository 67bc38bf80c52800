"""`tf.train.Saver` for dynamic tables: DeepRec's tensors, one set for each table, part and slot.

    <name>-keys, -values, -versions, -freqs            rows, by remainder of their keys by 1,000
    <name>-keys_filtered, -versions_filtered, -freqs_filtered
                                                       keys that were counted, but have no row yet
    <name>-partition_offset, -partition_filter_offset  where the keys of each remainder begin
    <name>-default_values                              where rows of new keys start, if in a matrix

A table and those of its slots that a saver has are saved by one op, as they are at one moment;
another one restores them, each part its own keys, from however many parts the checkpoint has. Other
variables stay in one SaveV2, and MergeV2Checkpoints joins the files, as for sharded savers.

What a rank has of a table that is sharded across ranks is a part, too. All save theirs together
(`sok.CheckpointSaver`), or one asks the others for theirs: its saver's nodes say what
(`sharding.rank_shares`), and its session does it.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.compat.live_graph import add_control_inputs, edited
from graph_opt.compat.resource_variables import (
    PartitionedVariable,
    VariableOfResource,
    on_device_of,
)
from graph_opt.compat.savers import OurSaveable, SaverParts, build_savers_with
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops import dynamic_checkpoint
from graph_opt.ops.dynamic_checkpoint import TABLE, Share, Stored
from graph_opt.ops.dynamic_table import BY_KEY
from graph_opt.sharding.rank_shares import RankShare, mark
from graph_opt.table_files.dynamic_tensors import KEYS


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
      together: Whether all ranks that have rows of the table save it.

    Attributes:
      table: The table, or that of the slot.
      slot: The slot, or None.
      changes: As given.
      together: As given.
    """

    def __init__(
        self, variable: Any, name: str, changes: bool = False, together: bool = False
    ) -> None:
        is_slot = hasattr(variable, "table")
        self.slot = variable if is_slot else None
        self.table = variable.table if is_slot else variable
        self.changes = changes
        self.together = together
        super().__init__(variable, name, name + KEYS, self.table.device)


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


def is_sharded(variable: Any) -> bool:
    """Whether a variable is a table, or a slot of one, of which other ranks have rows, too."""
    if not isinstance(variable, VariableOfResource):
        return False
    return _ranks_of(getattr(variable, "table", variable)) is not None


def rank_saveables(variables: Sequence[Any]) -> List[Any]:
    """What this rank saves of sharded tables and slots while all others do the same.

    Args:
      variables: Those that `is_sharded`.
    """
    found = []
    for variable in variables:
        table = getattr(variable, "table", variable)
        part = "{}/part_{}".format(table.op.name, table.transport.rank)
        name = variable.op.name.replace(table.op.name, part, 1)
        found.append(TableSaveable(variable, name, together=True))
    return found


def _ranks_of(table: Any) -> Any:
    """How this rank reaches others that have rows of the table; None if there are none."""
    transport = getattr(table, "transport", None)
    return transport if transport is not None and transport.size > 1 else None


def _share_of(table: Any) -> Optional[Share]:
    """None if this rank has no keys, as all are on another."""
    ranks = _ranks_of(table)
    if ranks is None:
        return Share(table.part, table.num_parts, table.owner_rule)
    if table.target_gpu < 0:
        return Share(ranks.rank, ranks.size, BY_KEY)
    return Share(0, 1, BY_KEY) if table.target_gpu == ranks.rank else None


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

    @property
    def stored_slots(self) -> List[Any]:
        return [one.op.stored for one in self.slots]

    @property
    def share(self) -> Optional[RankShare]:
        """What a saver of one rank saves and restores on all ranks; None if it is alone."""
        first = self.members[0]
        if _ranks_of(self.table) is None or first.together or first.changes:
            return None
        name = "" if self.rows is None else self.rows.name
        slots = []
        for slot in self.slots:
            pattern = _slot_name(slot.name, name or self.table.table_key)
            if TABLE not in pattern:
                raise ValueError(
                    "a saver names slot '{}' of a table of which other ranks have rows '{}': give "
                    "it a name with that of the table in it, '{}'".format(
                        slot.op.op.name, slot.name, name or self.table.table_key
                    )
                )
            slots.append((slot.op.op.name, pattern))
        return RankShare(self.table.op.name, name, tuple(sorted(slots)))

    @property
    def is_of_one_rank(self) -> bool:
        """Whether it is all that this rank can save, of a table of which others have rows."""
        return _ranks_of(self.table) is not None and not self.members[0].together


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
        prefixes.append(tf.strings.join([prefix, "_table-{:05d}".format(number)]))
        with on_device_of(group.table.handle):
            written.append(_refusal(group) if group.is_of_one_rank else _saved(prefixes[-1], group))
    return prefixes, written


def _refusal(group: _Group) -> Any:
    """Stands for what all ranks save; fails where nobody asks the others, or asks for changes."""
    text = (
        "'{}' has its rows on {} ranks, of which {} cannot be saved by the saver of one: let all "
        "ranks save together, by sok.CheckpointSaver "
        "(tf.train.Scaffold(saver=sok.CheckpointSaver())) or sok.dump"
    ).format(
        group.table.op.name,
        group.table.transport.size,
        "changes" if group.members[0].changes else "those of others",
    )
    refused = tf.raw_ops.Assert(condition=tf.constant(False), data=[tf.constant(text)])
    share = group.share
    if share is not None:
        mark(refused, share)
    return refused


def _saved(prefix: Any, group: _Group) -> Any:
    changes = group.members[0].changes
    stored = Stored(
        "" if group.rows is None else group.rows.name,
        [one.name for one in group.slots],
        group.table.key_dtype,
        changes,
        group.stored_slots,
    )
    table = group.table.handle
    return dynamic_checkpoint.save(prefix, table, group.handles, stored, evict=not changes)


def _restore(prefix: Any, saveables: List[Any]) -> None:
    for group in _groups(saveables):
        # A table that is restored starts empty, and slots that the checkpoint lacks start anew.
        changes = group.members[0].changes
        before = [] if changes else [member.op.initializer for member in group.members]
        handle = group.table.handle
        with edited(handle.graph), on_device_of(handle):
            done = _restored(prefix, group)
            # tf.control_dependencies would change initializers, which a session may have run.
            add_control_inputs(done.graph, done.name, [one.name for one in before])
        share = group.share
        if share is not None:
            mark(done, share)
        for member in group.members:
            member.restored = done


def _restored(prefix: Any, group: _Group) -> Any:
    table = group.table
    name = table.table_key if group.rows is None else group.rows.name
    stored = Stored(
        whole_name(name, table),
        [_slot_name(one.name, name) for one in group.slots],
        table.key_dtype,
        group.members[0].changes,
        group.stored_slots,
    )
    return restored(prefix, table, group.handles, stored, group.rows is not None)


def restored(
    prefix: Any, table: Any, slots: Sequence[Any], stored: Stored, rows: bool = True
) -> Any:
    """An op that reads the keys which are here of a table from a checkpoint.

    Args:
      prefix: Of the checkpoint.
      table: The table, or a part of it.
      slots: Handles of its slots.
      stored: What is read.
      rows: Whether to read the table itself; otherwise, only slots of keys that it has.
    """
    share = _share_of(table)
    if share is None:
        return tf.identity(prefix).op
    return dynamic_checkpoint.restore(prefix, table.handle, slots, stored, share, rows)


def whole_name(name: str, table: Any) -> str:
    """Name of a table, given that of one of its parts."""
    ranks = _ranks_of(table)
    if ranks is None and table.num_parts == 1:
        return name
    suffix = "/part_{}".format(table.part if ranks is None else ranks.rank)
    return name[: -len(suffix)] if name.endswith(suffix) else name


def _slot_name(name: str, table_name: str) -> str:
    """A slot's name with a place for that of its table or part: keras puts more before it."""
    return name.replace(table_name, TABLE, 1)


_PARTS = SaverParts(saveables_of, _save, _restore)
