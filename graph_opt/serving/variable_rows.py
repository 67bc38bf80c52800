"""Rows of a variable, as checkpoints have them and as a table file gets them."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.serving.mapped_variables import Stored
from graph_opt.table_files.checkpoint_rows import CheckpointRows
from graph_opt.table_files.dynamic_tensors import TRAINED_KEYS, TRAINED_VALUES
from graph_opt.table_files.low_precision import NotFinite
from graph_opt.table_files.mapped_files import (
    MappedTable,
    TableHead,
    stored_rows,
    stored_shape,
)
from graph_opt.table_files.row_blocks import blocks_of

Array = np.ndarray


class VariableRows:
    """A variable in a checkpoint.

    Args:
      checkpoint: The checkpoint.
      head: The table file of the variable.
      stored: Where the checkpoint has it.

    Raises:
      tf.errors.InvalidArgumentError: The checkpoint has it in another shape.
      ValueError: Its checksum is wrong.
    """

    def __init__(self, checkpoint: CheckpointRows, head: TableHead, stored: Stored) -> None:
        self._checkpoint = checkpoint
        self._head = head
        self._tensor = stored.tensor
        self._first = stored.first_row or 0
        shape, dtype = checkpoint.tensors[stored.tensor][1:3]
        part = (head.num_rows, *shape[1:]) if stored.slice_spec else shape
        has_rows = shape[:1] >= (self._first + head.num_rows,) or not shape
        if not has_rows or stored_shape(part, dtype, head.dtype) != head.shape:
            raise _shape_error(checkpoint, stored.tensor, shape, head)
        checkpoint.check(stored.tensor)

    def values(self, first: int, count: int) -> Array:
        """Rows [first, first + count), as the checkpoint has them."""
        if self._head.shape:
            return self._checkpoint.rows(self._tensor, self._first + first, count)
        return np.array([self._checkpoint.number(self._tensor)])

    def rows(self, first: int, count: int) -> Array:
        """Rows [first, first + count), as the file has them."""
        return as_stored(self.values(first, count), self._head, range(first, first + count))

    def blocks(self) -> Iterator[Array]:
        """All rows, in order."""
        for first, count in blocks_of(self._head.num_rows, self._head.row_bytes):
            yield self.rows(first, count)


def as_stored(values: Array, head: TableHead, numbers: Any) -> Array:
    """Rows of a variable as the file has them.

    Args:
      values: The rows.
      head: The file.
      numbers: Which rows they are.

    Raises:
      tf.errors.InvalidArgumentError: A number is not finite in the dtype of the file.
    """
    try:
        return stored_rows(values, head.dtype)
    except NotFinite as error:
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "table {!r} cannot be stored as {}: {} in row {:,} is not finite in it; {}".format(
                head.name,
                head.dtype.name,
                error.number,
                numbers[error.row],
                "bfloat16 has the range of float32"
                if np.isfinite(error.number)
                else "find out which update made it so",
            ),
        ) from error


class UpdatedRows:
    """A variable as checkpoints leave it, the last of which that has a row counts.

    Args:
      checkpoints: In order: a full one and its increments, or increments of the one that was
        exported.
      exported: The exported file.
      stored: Where checkpoints have the variable.

    Attributes:
      is_there: Whether one of them has it, or rows of it.

    Raises:
      tf.errors.InvalidArgumentError: A checkpoint has it in another shape, or rows that it lacks.
      ValueError: A checkpoint is damaged.
    """

    def __init__(
        self, checkpoints: Sequence[CheckpointRows], exported: MappedTable, stored: Stored
    ) -> None:
        self._head = exported.head
        self._before = exported
        self._whole: Optional[VariableRows] = None
        self._changes: Sequence[Tuple[Array, Array]] = []
        for checkpoint in checkpoints:
            if stored.tensor in checkpoint.tensors:
                self._whole = VariableRows(checkpoint, self._head, stored)
                self._changes = []
            name = self._head.name if stored.slice_spec else stored.tensor
            if name + TRAINED_KEYS in checkpoint.tensors:
                self._changes = [*self._changes, _changed_rows(checkpoint, name, self._head)]
        self.is_there = self._whole is not None or bool(self._changes)

    def rows(self, first: int, count: int) -> Array:
        """Rows [first, first + count), as a file has them."""
        if self._whole is not None:
            rows = self._whole.rows(first, count)
        else:
            rows = self._before.rows(first, count).copy()
        for keys, values in self._changes:
            inside = (keys >= first) & (keys < first + count)
            rows[keys[inside] - first] = values[inside]
        return rows


def _changed_rows(checkpoint: CheckpointRows, name: str, head: TableHead) -> Tuple[Array, Array]:
    for tensor in (name + TRAINED_KEYS, name + TRAINED_VALUES):
        if tensor not in checkpoint.tensors:
            raise ValueError(
                "{} has {!r} and no {!r}".format(checkpoint.prefix, name + TRAINED_KEYS, tensor)
            )
        checkpoint.check(tensor)
    count = checkpoint.tensors[name + TRAINED_KEYS].shape[0]
    keys = checkpoint.rows(name + TRAINED_KEYS, 0, count).astype(np.int64)
    shape, dtype = checkpoint.tensors[name + TRAINED_VALUES][1:3]
    wrong = keys[(keys < 0) | (keys >= head.num_rows)]
    if len(wrong):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "{}: has row {} of {!r}, of which there are {}: give a checkpoint of the model that "
            "was exported".format(checkpoint.prefix, wrong[0], name, head.num_rows),
        )
    if shape[:1] != (count,) or stored_shape(shape, dtype, head.dtype)[1:] != head.row_shape:
        raise _shape_error(checkpoint, name + TRAINED_VALUES, shape, head)
    return keys, as_stored(checkpoint.rows(name + TRAINED_VALUES, 0, count), head, keys)


def _shape_error(
    checkpoint: CheckpointRows, tensor: str, shape: Tuple[int, ...], head: TableHead
) -> Exception:
    return tf.errors.InvalidArgumentError(
        None,
        None,
        "{}: {!r} has shape {}, and the exported {!r} has {}: give a checkpoint of the model that "
        "was exported".format(checkpoint.prefix, tensor, list(shape), head.name, list(head.shape)),
    )
