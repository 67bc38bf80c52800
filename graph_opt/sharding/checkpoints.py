"""Sharded tables in TensorFlow's checkpoints: whole, in the order of their keys.

So a checkpoint is the one that a single process with whole tables would write, and any number of
ranks, or such a process, can go on from it. Rows pass through memory in blocks, which become slices
in the checkpoint, like those of a partitioned variable.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.array_steps import ArraySteps
from graph_opt.sharding.checkpoint_rows import CheckpointRows, tensorflow_errors
from graph_opt.sharding.checkpoint_slices import CheckpointParts, TensorSlice
from graph_opt.sharding.keyed_rows import KeyedRows

_BLOCK_BYTES = 32 << 20


def save_parts(
    folder: str, tables: Mapping[str, KeyedRows], ranks: Agreement, steps: ArraySteps
) -> List[str]:
    """Writes tables as parts of a checkpoint; called by all ranks.

    Args:
      folder: Where rank 0 writes.
      tables: By their names in the checkpoint, all of whose rows exist from the start.
      ranks: Notes errors; to be asked to agree afterwards.
      steps: What runs the steps.

    Returns:
      On rank 0 the prefixes of the parts, for `checkpoint_slices.merge_parts`.
    """
    parts = CheckpointParts(folder, steps)
    for name, table in sorted(tables.items()):
        _save(name, table, ranks, steps, parts)
    return parts.prefixes


def _save(
    name: str, table: KeyedRows, ranks: Agreement, steps: ArraySteps, parts: CheckpointParts
) -> None:
    num_keys = num_keys_of(table)
    for first in _firsts(table, num_keys):
        keys = np.arange(first, min(first + _rows_of_block(table), num_keys))
        owners = table.owners(keys)
        mine = np.zeros([0], np.uint8)
        with ranks.noting():
            mine = _as_bytes(_own_rows(steps, table, keys[owners == table.rank]))
        received = ranks.collect(mine)
        with ranks.noting():
            if ranks.rank == 0 and not ranks.has_failed:
                rows = np.empty([len(keys), table.width], table.dtype.as_numpy_dtype)
                for rank, part in enumerate(received):
                    rows[owners == rank] = part.view(rows.dtype).reshape(-1, table.width)
                parts.write(TensorSlice(name, num_keys, first, rows))


def restore_tables(prefix: str, tables: Mapping[str, KeyedRows], steps: ArraySteps) -> None:
    """Reads this rank's rows from a checkpoint, whoever wrote it.

    Args:
      prefix: The checkpoint.
      tables: By their names in the checkpoint.
      steps: What runs the steps.

    Raises:
      tf.errors.NotFoundError: The checkpoint has no such table.
      tf.errors.DataLossError: It is damaged.
      ValueError: The table there has another shape or dtype.
    """
    with tensorflow_errors():
        checkpoint = CheckpointRows(prefix)
    for name, table in tables.items():
        _check_table(checkpoint, name, table)
    clear_all(list(tables.values()), steps)
    for name, table in sorted(tables.items()):
        count = checkpoint.tensors[name].shape[0]
        with tensorflow_errors():
            checkpoint.check(name)
        for first in _firsts(table, count):
            size = min(_rows_of_block(table), count - first)
            with tensorflow_errors():
                keys = np.arange(first, first + size)
                rows = checkpoint.rows(name, first, size)
            mine = np.flatnonzero(table.owners(keys) == table.rank)
            if len(mine):
                steps.run(("write rows", table.name), table.write, keys[mine], rows[mine])


def clear_all(tables: Sequence[KeyedRows], steps: ArraySteps) -> None:
    """Makes tables ready for all their rows to be written (`KeyedRows.clear`)."""

    def clear() -> Any:
        cleared = [table.clear() for table in tables]
        return None if tf.executing_eagerly() else tf.group(*cleared)

    steps.run(("clear", tuple(table.name for table in tables)), clear)


def _firsts(table: KeyedRows, count: int) -> range:
    """The first row of each block; one block if there are no rows."""
    return range(0, max(1, count), _rows_of_block(table))


def num_keys_of(table: KeyedRows) -> int:
    """Number of rows of a whole table, all of whose rows exist from the start."""
    assert table.num_keys is not None
    return table.num_keys


def block_bytes() -> int:
    """The most bytes of a table that are in memory at a time, unless a row has more."""
    return _BLOCK_BYTES


def rows_of_block(width: int, dtype: Any) -> int:
    """How many rows pass through memory at a time."""
    return max(1, _BLOCK_BYTES // max(1, width * dtype.size))


def _rows_of_block(table: KeyedRows) -> int:
    return rows_of_block(table.width, table.dtype)


def _own_rows(steps: ArraySteps, table: KeyedRows, keys: np.ndarray) -> np.ndarray:
    """Rows of ascending keys, which lie one after another as long as none is left out."""
    first = int(table.places(keys[:1])[0]) if len(keys) else 0
    return np.asarray(_read_block(steps, table, first, len(keys))[1])


def _read_block(steps: ArraySteps, table: KeyedRows, first: int, count: int) -> Any:
    return steps.run(("rows", table.name), table.block, np.int64(first), np.int64(count))


def _as_bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _check_table(checkpoint: CheckpointRows, name: str, table: KeyedRows) -> None:
    tensors = checkpoint.tensors
    if name not in tensors:
        raise tf.errors.NotFoundError(
            None, None, "Key {} not found in checkpoint {}".format(name, checkpoint.prefix)
        )
    shape, dtype = list(tensors[name].shape), tensors[name].dtype
    if shape != [table.num_keys, table.width] or dtype != table.dtype:
        raise ValueError(
            "{} of checkpoint {} has shape {} and dtype {}; the table has {} and {}".format(
                *(name, checkpoint.prefix, shape, dtype.name),
                *([table.num_keys, table.width], table.dtype.name),
            )
        )
