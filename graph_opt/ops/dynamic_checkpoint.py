"""Dynamic tables in checkpoints, in DeepRec's layout of tensors."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.ops.dynamic_table import BY_KEY_1000
from graph_opt.ops.library import load_library

TABLE = "{}"


class StoredSlot(NamedTuple):
    """How a checkpoint has a slot.

    Attributes:
      dtype: tf.float32; or tf.int32 or tf.int64 for a slot that is one number for each row. That is
        read from numbers of any type, and any width.
      width: Columns that it has there, of which only the first is a number's; 0 for the table's.
    """

    dtype: Any = tf.float32
    width: int = 0


class Stored(NamedTuple):
    """What a checkpoint has of a table.

    Attributes:
      tensor_name: Name of the table there. To write: empty if only slots are written. To read:
        without `/part_N`.
      slot_names: Names of the slots there. To read: with `TABLE` for the name of the table or of
        its part.
      key_dtype: Of keys there; keys of either type are read.
      changes: Whether it has what has changed since changes were last committed, instead of all.
      slots: How it has the slots; none if all are like the table.
    """

    tensor_name: str
    slot_names: Sequence[str] = ()
    key_dtype: Any = tf.int64
    changes: bool = False
    slots: Sequence[StoredSlot] = ()


class Share(NamedTuple):
    """Which keys of a table are in one part of it.

    Attributes:
      part: Number of the part.
      num_parts: Number of parts that the table has.
      owner_rule: Which part has a key.
    """

    part: int = 0
    num_parts: int = 1
    owner_rule: str = BY_KEY_1000


_WHOLE = Share()


def save(
    prefix: Any,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    stored: Stored,
    evict: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Writes a table and its slots as they are at one moment, while training goes on.

    Args:
      prefix: Of a checkpoint that will have nothing else.
      table: Handle of the table.
      slots: Handles of slots of the table.
      stored: What is written.
      evict: Whether the table's eviction policy removes rows first.
      name: Name of the node.

    Returns:
      The operation.
    """
    return load_library().dynamic_table_save(
        prefix=prefix,
        table=table,
        slots=list(slots),
        tensor_name=stored.tensor_name,
        slot_names=stored.slot_names,
        key_dtype=stored.key_dtype,
        slot_dtypes=[slot.dtype for slot in stored.slots],
        slot_widths=[slot.width for slot in stored.slots],
        evict=evict,
        changes=stored.changes,
        name=name,
    )


def restore(
    prefix: Any,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    stored: Stored,
    share: Share = _WHOLE,
    rows: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Reads a table, or a part of one, from a checkpoint that has it in any number of parts.

    Args:
      prefix: What `tf.train.Saver.save` has returned.
      table: Handle of the table, which is initialized.
      slots: Handles of its slots. Those that the checkpoint does not have get their initial values.
      stored: What is read.
      share: Which keys.
      rows: Whether to read the table itself; otherwise, only slots of keys that it has.
      name: Name of the node.

    Returns:
      The operation. It fails with NotFoundError if the checkpoint has no such table, and with
      DataLossError if its tensors are not those that were written.
    """
    return load_library().dynamic_table_restore(
        prefix=prefix,
        table=table,
        slots=list(slots),
        tensor_name=stored.tensor_name,
        slot_names=stored.slot_names,
        key_dtype=stored.key_dtype,
        slot_dtypes=[slot.dtype for slot in stored.slots],
        rows=rows,
        changes=stored.changes,
        name=name,
        **share._asdict(),
    )


def begin_tracking(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Tells a table that a full checkpoint is about to be written: later changes are newer."""
    return load_library().dynamic_table_track_changes(table=table, action="begin", name=name)


def commit_tracking(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Tells a table that the checkpoint is written: changes are those since `begin_tracking`."""
    return load_library().dynamic_table_track_changes(table=table, action="commit", name=name)
