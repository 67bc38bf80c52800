"""Tables whose rows are read and written by key, however a rank keeps them.

What saves, loads, exports or assigns rows knows no more of a table than this.
"""

from __future__ import annotations

import abc
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.placement import ReplicatedRows, RowsOnRank, RowsRule


class KeyedRows(abc.ABC):
    """This rank's rows of a table, or of one of its slots.

    Attributes:
      name: Name of the variable, the same on all ranks.
      dtype: Of the rows.
      width: Number of columns.
      key_dtype: Of the keys in files.
      num_keys: Rows of the whole table, which has all keys in [0, num_keys); None where rows come
        and go.
      fixed_rows: How many of them this rank has; None where rows come and go.
      rank: Number of this rank.
      is_replicated: Whether every rank has all rows, and is the owner of its own.
    """

    name: str
    dtype: Any
    width: int
    key_dtype: Any = tf.int64
    num_keys: Optional[int] = None
    fixed_rows: Optional[int] = None
    rank: int
    is_replicated: bool = False

    @abc.abstractmethod
    def num_rows(self) -> tf.Tensor:
        """How many rows this rank has now, as int64."""

    @abc.abstractmethod
    def block(self, first: Any, count: Any) -> Tuple[tf.Tensor, tf.Tensor]:
        """Some of this rank's rows, in an order that only changes when rows come or go.

        Args:
          first: Number of the first one.
          count: How many; fewer at the end.

        Returns:
          int64 keys [n], and rows [n, width].
        """

    @abc.abstractmethod
    def owners(self, keys: Any) -> Any:
        """The rank that has each key; -1 for keys that the table cannot have.

        Args:
          keys: int64, as an array or a tensor; the result is of the same kind.
        """

    @abc.abstractmethod
    def places(self, keys: Any) -> Any:
        """Where this rank has its own keys, as numbers below `num_rows`.

        Args:
          keys: int64, as an array or a tensor; the result is of the same kind.
        """

    @abc.abstractmethod
    def clear(self) -> Any:
        """Makes ready for all rows to be written, whether or not anything has initialized them.

        Rows that come and go are forgotten; others stay what they are, or become zeros. In graphs
        returns the op.
        """

    @abc.abstractmethod
    def write(self, keys: Any, rows: Any) -> Any:
        """Writes rows by key, and makes those that are missing. In graphs returns the op.

        Args:
          keys: int64 [n]. This rank's own, each once.
          rows: [n, width].
        """


class ShardedRows(KeyedRows):
    """Rows of a resource variable that has this rank's part of a table.

    Args:
      name: Name of the variable.
      part: The variable, [rows, width]; its dtype and shape where this rank has no rows.
      rule: How rows are divided.
      rank: Number of this rank.
      first_row: The row of the variable that is the first of these; it may have others beside them.
    """

    def __init__(self, name: str, part: Any, rule: RowsRule, rank: int, first_row: int = 0) -> None:
        self.name = name
        self.dtype = part.dtype.base_dtype
        self.width = int(part.shape[1])
        self.key_dtype = tf.uint64 if isinstance(rule, RowsOnRank) else tf.int64
        self.num_keys = rule.num_rows
        self.fixed_rows = rule.num_local_rows(rank)
        self.rank = rank
        self.is_replicated = isinstance(rule, ReplicatedRows)
        self._part = part
        self._rule = rule
        self._first_row = first_row

    def num_rows(self) -> tf.Tensor:
        """See `KeyedRows`."""
        return tf.constant(self.fixed_rows, tf.int64)

    def block(self, first: Any, count: Any) -> Tuple[tf.Tensor, tf.Tensor]:
        """See `KeyedRows`."""
        begin = tf.cast(first, tf.int64)
        end = tf.minimum(self.num_rows(), begin + tf.cast(count, tf.int64))
        rows = tf.range(begin, end, dtype=tf.int64)
        # A gather, as the value of a variable that was updated sparsely is a copy of all of it.
        return self._rule.key(self.rank, rows), tf.gather(self._part, self._first_row + rows)

    def owners(self, keys: Any) -> Any:
        """See `KeyedRows`."""
        exists = (keys >= 0) & (keys < self.num_keys)
        if isinstance(keys, np.ndarray):
            return np.where(exists, self._rule.owner(keys), -1)
        return tf.where(exists, self._rule.owner(keys), -tf.ones_like(keys))

    def places(self, keys: Any) -> Any:
        """See `KeyedRows`."""
        return self._rule.local_row(keys)

    def clear(self) -> Any:
        """See `KeyedRows`."""
        return zeros_if_uninitialized(self._part)

    def write(self, keys: Any, rows: Any) -> Any:
        """See `KeyedRows`."""
        places = self.places(tf.cast(keys, tf.int64)) + self._first_row
        return scattered(self._part, rows, places)


class TablePart(NamedTuple):
    """What a variable has of a table, or of a slot of one.

    Attributes:
      name: Name of the whole table, the same on all ranks: that of `rows`.
      rows: This rank's rows, of the columns that the variable has.
      first_column: The first of these columns.
      table_width: Columns of the whole table.
    """

    name: str
    rows: KeyedRows
    first_column: int
    table_width: int


def table_parts(variable: Any) -> List[TablePart]:
    """What a variable, or a slot, has of sharded tables; nothing of one that all ranks share.

    A variable may have rows of several tables, and a table columns in several variables.
    """
    parts = getattr(variable, "table_parts", None)
    if parts is not None:
        return list(parts)
    rows = getattr(variable, "keyed_rows", None)
    return [TablePart(rows.name, rows, 0, rows.width)] if isinstance(rows, KeyedRows) else []


def clear_all(tables: Sequence[KeyedRows], steps: ArraySteps) -> None:
    """Makes tables ready for all their rows to be written (`KeyedRows.clear`)."""

    def clear() -> Any:
        cleared = [table.clear() for table in tables]
        return None if tf.executing_eagerly() else tf.group(*cleared)

    steps.run(("clear", tuple(table.name for table in tables)), clear)


def scattered(variable: Any, rows: Any, places: Any) -> Any:
    """Writes rows of a variable. In graphs returns the op, and not the variable, to be fetched."""
    written = variable.scatter_update(tf.IndexedSlices(rows, places))
    return None if tf.executing_eagerly() else written.op


def zeros_if_uninitialized(variable: Any) -> Any:
    """Initializes a variable with zeros if nothing else has. In graphs returns the op."""
    is_initialized = tf.is_variable_initialized(variable)

    def initialized() -> Any:
        # Of a table that a session has divided, the variable still has the whole table's shape.
        rows, width = _shape_of_part(variable).as_list()
        # Zeros of a constant shape would become a constant, which the session keeps in memory.
        count = rows * tf.cast(tf.logical_not(is_initialized), tf.int64)
        return tf.group(variable.assign(tf.zeros([count, width], variable.dtype.base_dtype)))

    return tf.cond(is_initialized, tf.no_op, initialized)


def _shape_of_part(variable: Any) -> Any:
    if tf.executing_eagerly():
        return variable.shape
    return tf.TensorShape(variable.op.get_attr("shape"))


def keyed_rows(variable: Any) -> KeyedRows:
    """The rows of a sharded table, or of a slot of one.

    Raises:
      TypeError: The variable is neither.
    """
    rows = getattr(variable, "keyed_rows", None)
    if not isinstance(rows, KeyedRows):
        raise TypeError(
            "{!r} is neither a sok.Variable nor a slot of one (from "
            "sok.OptimizerWrapper.get_slot)".format(getattr(variable, "name", variable))
        )
    return rows
