"""Dynamic tables in checkpoints, in DeepRec's layout of tensors."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.ops.library import load_library

TABLE = "{}"


def save(
    prefix: Any,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    tensor_name: str,
    slot_names: Sequence[str],
    key_dtype: Any = tf.int64,
    evict: bool = False,
    changes: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Writes a table and its slots as they are at one moment, while training goes on.

    Args:
      prefix: Of a checkpoint that will have nothing else.
      table: Handle of the table.
      slots: Handles of slots of the table.
      tensor_name: Name of the table in the checkpoint; empty if only slots are written.
      slot_names: Names of the slots there.
      key_dtype: Of keys there.
      evict: Whether the table's eviction policy removes rows first.
      changes: Whether to write only what has changed since changes were last committed.
      name: Name of the node.

    Returns:
      The operation.
    """
    return load_library().dynamic_table_save(
        prefix=prefix,
        table=table,
        slots=list(slots),
        tensor_name=tensor_name,
        slot_names=list(slot_names),
        key_dtype=key_dtype,
        evict=evict,
        changes=changes,
        name=name,
    )


def restore(
    prefix: Any,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    tensor_name: str,
    slot_names: Sequence[str],
    part: int = 0,
    num_parts: int = 1,
    owner_rule: str = BY_KEY_1000,
    key_dtype: Any = tf.int64,
    rows: bool = True,
    changes: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Reads a table, or a part of one, from a checkpoint that has it in any number of parts.

    Args:
      prefix: What `tf.train.Saver.save` has returned.
      table: Handle of the table, which is initialized.
      slots: Handles of its slots. Those that the checkpoint does not have get their initial values.
      tensor_name: Name of the table in the checkpoint, without `/part_N`.
      slot_names: Names of the slots there, with `TABLE` for the name of the table or of its part.
      part: Number of the part to read.
      num_parts: Number of parts that the table has now.
      owner_rule: Which part has a key.
      key_dtype: Of the table's keys; those of the checkpoint may be of either type.
      rows: Whether to read the table itself; otherwise, only slots of keys that it has.
      changes: Whether the checkpoint has changes, to be added to what the table has.
      name: Name of the node.

    Returns:
      The operation. It fails with NotFoundError if the checkpoint has no such table, and with
      DataLossError if its tensors are not those that were written.
    """
    return load_library().dynamic_table_restore(
        prefix=prefix,
        table=table,
        slots=list(slots),
        tensor_name=tensor_name,
        slot_names=list(slot_names),
        part=part,
        num_parts=num_parts,
        owner_rule=owner_rule,
        key_dtype=key_dtype,
        rows=rows,
        changes=changes,
        name=name,
    )


def begin_tracking(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Tells a table that a full checkpoint is about to be written: later changes are newer."""
    return load_library().dynamic_table_track_changes(table=table, action="begin", name=name)


def commit_tracking(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Tells a table that the checkpoint is written: changes are those since `begin_tracking`."""
    return load_library().dynamic_table_track_changes(table=table, action="commit", name=name)
