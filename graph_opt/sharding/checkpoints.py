"""Divided tables in TensorFlow's checkpoints: whole, in the order of their keys.

So a checkpoint is the one that a single process with whole tables would write, and any number of
ranks, or such a process, can go on from it. Rows pass through memory in blocks, which become slices
in the checkpoint, like those of a partitioned variable.
"""

from __future__ import annotations

import os
from typing import Any, Callable, List, Mapping, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.array_steps import ArraySteps
from graph_opt.sharding.keyed_rows import KeyedRows

_BLOCK_BYTES = 128 << 20


def save_parts(
    folder: str, tables: Mapping[str, KeyedRows], ranks: Agreement, steps: ArraySteps
) -> List[str]:
    """Writes tables as parts of a checkpoint; called by all ranks.

    Args:
      folder: Where rank 0 writes.
      tables: Those whose rows are numbered, by their names in the checkpoint.
      ranks: Notes errors; to be asked to agree afterwards.
      steps: What runs the steps.

    Returns:
      On rank 0 the prefixes of the parts, for `merge_parts`.
    """
    prefixes: List[str] = []
    for name, table in sorted(tables.items()):
        for first in _firsts(table):
            keys = np.arange(first, min(first + _rows_of_block(table), table.num_keys or 0))
            owners = np.zeros([0])
            mine = np.zeros([0], np.uint8)
            with ranks.noting():
                owners = table.owners(keys)
                mine = _own_rows(steps, table, keys[owners == table.rank])
            parts = ranks.collect(mine.reshape(-1).view(np.uint8))
            with ranks.noting():
                if ranks.rank == 0 and not ranks.has_failed:
                    prefixes.append(os.path.join(folder, "part-{:05d}".format(len(prefixes))))
                    rows = _joined(table, owners, parts)
                    spec = _slice_spec(table, first, len(keys))
                    steps.run(("save", table.dtype), _save, prefixes[-1], [name], [spec], rows)
    return prefixes


def merge_parts(prefixes: List[str], prefix: str, steps: ArraySteps) -> None:
    """Makes a checkpoint of its parts, which are moved and not copied."""

    def merge(parts: Any, whole: Any) -> Any:
        return tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=whole)

    steps.run("merge", merge, prefixes, prefix)


def restore_tables(prefix: str, tables: Mapping[str, KeyedRows], steps: ArraySteps) -> None:
    """Reads this rank's rows from a checkpoint, whoever wrote it.

    Args:
      prefix: The checkpoint.
      tables: Those whose rows are numbered, by their names in the checkpoint.
      steps: What runs the steps.

    Raises:
      tf.errors.NotFoundError: The checkpoint has no such table.
      ValueError: The table there has another shape or dtype.
    """
    reader = tf.train.NewCheckpointReader(prefix)
    for name, table in sorted(tables.items()):
        _check_table(reader, prefix, name, table)
    allocate_all(list(tables.values()), steps)
    for name, table in sorted(tables.items()):
        read = _restore(table.dtype)
        for first in _firsts(table):
            keys = np.arange(first, min(first + _rows_of_block(table), table.num_keys or 0))
            mine = keys[table.owners(keys) == table.rank]
            if len(mine):
                spec = _slice_spec(table, first, len(keys))
                rows = steps.run(("restore", table.dtype), read, prefix, [name], [spec])
                steps.run(("write rows", table.name), table.write, mine, rows[mine - first])


def allocate_all(tables: Sequence[KeyedRows], steps: ArraySteps) -> None:
    """Makes room for rows that nothing has initialized, before all are written."""

    def allocate() -> Any:
        made = [table.allocate() for table in tables]
        return None if tf.executing_eagerly() else tf.group(*made)

    steps.run(("allocate", tuple(table.name for table in tables)), allocate)


def _firsts(table: KeyedRows) -> range:
    """The first key of each block; one block if there are no rows."""
    return range(0, max(1, table.num_keys or 0), _rows_of_block(table))


def _rows_of_block(table: KeyedRows) -> int:
    return max(1, _BLOCK_BYTES // max(1, table.width * table.dtype.size))


def _own_rows(steps: ArraySteps, table: KeyedRows, keys: np.ndarray) -> np.ndarray:
    """Rows of ascending keys, which lie one after another as long as none is left out."""
    first = 0
    if len(keys):
        first = int(table.places(keys[:1])[0])
    _, rows = steps.run(("rows", table.name), table.block, np.int64(first), np.int64(len(keys)))
    return np.ascontiguousarray(rows)


def _joined(table: KeyedRows, owners: np.ndarray, parts: List[np.ndarray]) -> np.ndarray:
    rows = np.empty([len(owners), table.width], table.dtype.as_numpy_dtype)
    for rank, part in enumerate(parts):
        rows[owners == rank] = part.view(rows.dtype).reshape(-1, table.width)
    return rows


def _slice_spec(table: KeyedRows, first: int, count: int) -> str:
    """What SaveV2 and RestoreV2 call `shape_and_slice`."""
    if count == table.num_keys:
        return ""
    return "{} {} {},{}:-".format(table.num_keys, table.width, first, count)


def _save(prefix: Any, names: Any, specs: Any, rows: Any) -> Any:
    return tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=names, shape_and_slices=specs, tensors=[rows]
    )


def _restore(dtype: Any) -> Callable[[Any, Any, Any], Any]:
    def restore(prefix: Any, names: Any, specs: Any) -> Any:
        return tf.raw_ops.RestoreV2(
            prefix=prefix, tensor_names=names, shape_and_slices=specs, dtypes=[dtype]
        )[0]

    return restore


def _check_table(reader: Any, prefix: str, name: str, table: KeyedRows) -> None:
    shapes = reader.get_variable_to_shape_map()
    if name not in shapes:
        raise tf.errors.NotFoundError(
            None, None, "Key {} not found in checkpoint {}".format(name, prefix)
        )
    shape, dtype = list(shapes[name]), reader.get_variable_to_dtype_map()[name]
    if shape != [table.num_keys, table.width] or dtype != table.dtype:
        raise ValueError(
            "{} of checkpoint {} has shape {} and dtype {}; the table has {} and {}".format(
                name, prefix, shape, dtype.name, [table.num_keys, table.width], table.dtype.name
            )
        )
