"""What a dynamic table holds: export, import, assignment, eviction, and what it tells of itself."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.ops.library import load_library


class ExportedRows(NamedTuple):
    """Rows of a dynamic table, as they were at one moment.

    Attributes:
      keys: int64 [n].
      values: float32 [n, D].
      slot_values: float32 [n, D] for each slot.
      frequencies: int64 [n]. How often each key was looked up.
      versions: int64 [n]. The step of each row's last update; -1 for none.
    """

    keys: tf.Tensor
    values: tf.Tensor
    slot_values: List[tf.Tensor]
    frequencies: tf.Tensor
    versions: tf.Tensor


class KeyMetadata(NamedTuple):
    """How often keys were looked up, and when they were updated.

    Attributes:
      frequencies: int64.
      versions: int64; -1 for keys that were not updated.
    """

    frequencies: tf.Tensor
    versions: tf.Tensor


class FilteredKeys(NamedTuple):
    """Keys that a table has counted, but not given a row.

    Attributes:
      keys: int64 [n].
      frequencies: int64 [n].
      versions: int64 [n].
    """

    keys: tf.Tensor
    frequencies: tf.Tensor
    versions: tf.Tensor


def export_rows(
    table: tf.Tensor,
    slots: Sequence[tf.Tensor] = (),
    first: Any = 0,
    count: Any = -1,
    name: Optional[str] = None,
) -> ExportedRows:
    """A block of a table's rows, in an order that stays the same while no rows come or go.

    Args:
      table: Handle of the table.
      slots: Handles of slots of it.
      first: int64. Number of the first row, of those that there are.
      count: int64. The most rows to give; -1 for all that follow.
      name: Name of the node.
    """
    exported = load_library().dynamic_table_export(
        table=table,
        slots=list(slots),
        first=tf.cast(first, tf.int64),
        count=tf.cast(count, tf.int64),
        name=name,
    )
    return ExportedRows(*exported)


def rows_since(
    table: tf.Tensor, time: Any, written: bool, name: Optional[str] = None
) -> Tuple[tf.Tensor, tf.Tensor]:
    """The rows that were looked up or written after a moment.

    Args:
      table: Handle of a table whose options say `notes_times`.
      time: In microseconds since 1970.
      written: Whether only rows that were written, or made, are wanted.
      name: Name of the node.

    Returns:
      Their keys, int64 [n], and values, float32 [n, D].
    """
    rows = load_library().dynamic_table_rows_since(
        table=table, time=tf.cast(time, tf.int64), written=written, name=name
    )
    return rows.keys, rows.values


def export_filtered(table: tf.Tensor, name: Optional[str] = None) -> FilteredKeys:
    """The keys that a table has counted, but not yet given a row."""
    return FilteredKeys(*load_library().dynamic_table_export_filtered(table=table, name=name))


def import_rows(
    table: tf.Tensor,
    keys: tf.Tensor,
    values: Optional[tf.Tensor] = None,
    slots: Sequence[tf.Tensor] = (),
    slot_values: Sequence[tf.Tensor] = (),
    frequencies: Optional[tf.Tensor] = None,
    versions: Optional[tf.Tensor] = None,
    name: Optional[str] = None,
) -> Any:
    """Gives keys their rows, whatever the table's admission policy.

    Args:
      table: Handle of the table.
      keys: int64 [n].
      values: float32 [n, D]; None: rows keep what they have, and new ones begin as those of a
        lookup.
      slots: Handles of slots of the table; others get their initial values.
      slot_values: float32 [n, D] for each of `slots`.
      frequencies: int64 [n]; None for what keys with rows have at least.
      versions: int64 [n]; None for -1.
      name: Name of the node.

    Returns:
      The operation; None eagerly.
    """
    return load_library().dynamic_table_import(
        table=table,
        slots=list(slots),
        keys=keys,
        values=tf.constant([], tf.float32) if values is None else values,
        slot_values=list(slot_values),
        frequencies=_or_empty(frequencies),
        versions=_or_empty(versions),
        name=name,
    )


def import_filtered(
    table: tf.Tensor,
    keys: tf.Tensor,
    frequencies: tf.Tensor,
    versions: Optional[tf.Tensor] = None,
    name: Optional[str] = None,
) -> Any:
    """Tells a table how often keys without a row have occurred: int64 [n] each."""
    return load_library().dynamic_table_import_filtered(
        table=table,
        keys=keys,
        frequencies=frequencies,
        versions=_or_empty(versions),
        name=name,
    )


def assign_rows(
    table: tf.Tensor,
    keys: tf.Tensor,
    values: tf.Tensor,
    insert: bool = True,
    name: Optional[str] = None,
) -> Any:
    """Assigns rows of a table, or of a slot of one.

    Args:
      table: Handle of the table, or of the slot.
      keys: int64 [n].
      values: float32 [n, D].
      insert: Whether keys without a row get one; otherwise they are passed over.
      name: Name of the node.

    Returns:
      The operation; None eagerly.
    """
    return load_library().dynamic_table_assign(
        table=table, keys=keys, values=values, insert=insert, name=name
    )


def erase_rows(table: tf.Tensor, keys: tf.Tensor, name: Optional[str] = None) -> Any:
    """Takes rows from keys, int64 [n]; those without a row are passed over."""
    return load_library().dynamic_table_erase(table=table, keys=keys, name=name)


def table_size(table: tf.Tensor, name: Optional[str] = None) -> tf.Tensor:
    """The number of rows, and their width: int64 [2]."""
    return load_library().dynamic_table_size(table=table, name=name)


def key_metadata(table: tf.Tensor, keys: tf.Tensor, name: Optional[str] = None) -> KeyMetadata:
    """What a table knows of keys, int64 of any shape, whether they have rows or not."""
    return KeyMetadata(*load_library().dynamic_table_metadata(table=table, keys=keys, name=name))


def evict_rows(
    table: tf.Tensor, step: Any, name: Optional[str] = None
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Takes rows from keys as the table's eviction policy says.

    Args:
      table: Handle of the table.
      step: Number of the training step.
      name: Name of the node.

    Returns:
      The keys, int64 [n], and what their rows were, float32 [n, D].
    """
    keys, values = load_library().dynamic_table_evict(
        table=table, step=tf.cast(step, tf.int64), name=name
    )
    return keys, values


def compact(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Gives memory of free rows back to the system."""
    return load_library().dynamic_table_compact(table=table, name=name)


def end_epoch(table: tf.Tensor, name: Optional[str] = None) -> Any:
    """Lets later lookups belong to another epoch, by which a table may evict."""
    return load_library().dynamic_table_end_epoch(table=table, name=name)


def table_metrics(table: tf.Tensor, name: Optional[str] = None) -> tf.Tensor:
    """What a table holds and has done: a string scalar of JSON."""
    return load_library().dynamic_table_metrics(table=table, name=name)


def _or_empty(numbers: Optional[tf.Tensor]) -> tf.Tensor:
    return tf.constant([], tf.int64) if numbers is None else numbers
