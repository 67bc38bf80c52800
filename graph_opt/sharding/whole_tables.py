"""Whole tables in checkpoints, written by one rank and read by each: block by block.

A checkpoint is the one that a single process with whole tables would write, and any number of
ranks, or such a process, can go on from it.
"""

from __future__ import annotations

import abc
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.array_steps import ArraySteps
from graph_opt.sharding.checkpoint_slices import CheckpointParts, TensorSlice
from graph_opt.sharding.checkpoints import KEYS_SUFFIX, block_bytes, clear_all, rows_of_block
from graph_opt.sharding.keyed_rows import KeyedRows, TablePart
from graph_opt.sharding.saver_nodes import SavedVariable
from graph_opt.sharding.table_variables import Parts


class Place(NamedTuple):
    """Where ranks find rows.

    Attributes:
      variable: Name of the op of a variable.
      number: Which of its parts of tables.
    """

    variable: str
    number: int


class Column(NamedTuple):
    """Some columns of a whole table.

    Attributes:
      place: Where ranks have them.
      part: What this rank has.
    """

    place: Place
    part: TablePart


class WholeTable(NamedTuple):
    """A table, or a slot, in a checkpoint.

    Attributes:
      name: Name of the tensor.
      rows: How many rows the tensor has; None if as many as there are.
      first: Where the table begins in it: savers may hold a tensor in several variables.
      columns: All columns, wherever they are.
    """

    name: str
    rows: Any
    first: int
    columns: Tuple[Column, ...]

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.columns[0].part.table_width

    @property
    def keyed(self) -> KeyedRows:
        """The rows of its first columns."""
        return self.columns[0].part.rows

    def shape(self) -> List[int]:
        """Shape of the tensor, of a table that has all its rows."""
        return [int(self.rows), self.width]


class RowsOfRanks(abc.ABC):
    """Rows of all ranks, as one of them gets them."""

    size: int

    @abc.abstractmethod
    def read(self, table: WholeTable, column: Column, keys: Mapping[int, np.ndarray]) -> Any:
        """Rows of ranks: for each its own keys, which ascend and lie one after another there."""

    @abc.abstractmethod
    def counts(self, place: Place) -> List[int]:
        """How many rows each rank has now, of tables whose rows come and go."""

    @abc.abstractmethod
    def read_block(self, place: Place, rank: int, first: int, count: int) -> Tuple[Any, Any]:
        """Keys and rows of a rank, of such tables."""


def whole_tables(saved: Sequence[SavedVariable], parts: Parts) -> List[WholeTable]:
    """The tensors that variables stand for in a checkpoint."""
    found: Dict[str, WholeTable] = {}
    for one in saved:
        of_variable = parts[one.variable]
        is_table = len(of_variable) == 1 and of_variable[0].name == one.variable
        for number, part in enumerate(of_variable):
            name = one.name if is_table else part.name
            rows, first = _rows_and_first(one.spec) if one.spec else (part.rows.num_keys, 0)
            key = "{} {}".format(name, first)
            before = found[key].columns if key in found else ()
            columns = (*before, Column(Place(one.variable, number), part))
            found[key] = WholeTable(name, rows, first, columns)
    return [found[key] for key in sorted(found)]


def write_tables(tables: Sequence[WholeTable], ranks: RowsOfRanks, parts: CheckpointParts) -> None:
    """Writes tables as parts of a checkpoint.

    A table whose rows come and go has those that there are now, one rank's after another's, and
    their keys beside them, as `NAME/keys`.
    """
    waiting: List[TensorSlice] = []
    num_bytes = 0
    for table in tables:
        for piece in _slices(table, ranks):
            if waiting and num_bytes + piece.values.nbytes > block_bytes():
                parts.write(*waiting)
                waiting, num_bytes = [], 0
            waiting.append(piece)
            num_bytes += piece.values.nbytes
    parts.write(*waiting)


def _slices(table: WholeTable, ranks: RowsOfRanks) -> Iterator[TensorSlice]:
    if table.keyed.num_keys is None:
        return _keyed_slices(table, ranks)
    return _numbered_slices(table, table.keyed.num_keys, ranks)


def _numbered_slices(table: WholeTable, num_keys: int, ranks: RowsOfRanks) -> Iterator[TensorSlice]:
    size = rows_of_block(table.width, table.keyed.dtype)
    for first in range(0, max(1, num_keys), size):
        keys = np.arange(first, min(first + size, num_keys))
        rows = np.empty([len(keys), table.width], table.keyed.dtype.as_numpy_dtype)
        for column in table.columns:
            part = column.part
            owners = part.rows.owners(keys)
            asked = {int(rank): keys[owners == rank] for rank in np.unique(owners)}
            columns = slice(part.first_column, part.first_column + part.rows.width)
            for rank, received in ranks.read(table, column, asked).items():
                rows[owners == rank, columns] = received
        yield TensorSlice(table.name, int(table.rows), table.first + first, rows)


def _keyed_slices(table: WholeTable, ranks: RowsOfRanks) -> Iterator[TensorSlice]:
    place = table.columns[0].place
    counts = ranks.counts(place)
    total, begin = sum(counts), 0
    size = rows_of_block(table.width, table.keyed.dtype)
    if not total:
        empty = np.zeros([0, table.width], table.keyed.dtype.as_numpy_dtype)
        yield TensorSlice(table.name + KEYS_SUFFIX, 0, 0, np.zeros([0], np.int64))
        yield TensorSlice(table.name, 0, 0, empty)
    for rank, count in enumerate(counts):
        for first in range(0, count, size):
            keys, rows = ranks.read_block(place, rank, first, min(size, count - first))
            yield TensorSlice(table.name + KEYS_SUFFIX, total, begin, keys)
            yield TensorSlice(table.name, total, begin, rows)
            begin += len(keys)


def check_tables(tables: Sequence[WholeTable], checkpoint: Any) -> None:
    """Whether a checkpoint has tables as they are here.

    Args:
      tables: The tables.
      checkpoint: A `CheckpointRows`, or what reads one on another rank.

    Raises:
      tf.errors.NotFoundError: It lacks one.
      tf.errors.InvalidArgumentError: One has another shape or dtype there.
    """
    for table in tables:
        names = [table.name] + [table.name + KEYS_SUFFIX] * (table.keyed.num_keys is None)
        for name in names:
            if name not in checkpoint.tensors:
                text = "Key {} not found in checkpoint {}".format(name, checkpoint.prefix)
                raise tf.errors.NotFoundError(None, None, text)
        there = checkpoint.tensors[table.name]
        rows = there.shape[0] if table.rows is None and len(there.shape) else table.rows
        if list(there.shape) != [rows, table.width] or there.dtype != table.keyed.dtype:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "{} of checkpoint {} has shape {} and dtype {}; the whole table has {} and "
                "{}".format(
                    table.name,
                    checkpoint.prefix,
                    list(there.shape),
                    there.dtype.name,
                    [rows, table.width],
                    table.keyed.dtype.name,
                ),
            )


def read_tables(tables: Sequence[WholeTable], checkpoint: Any, steps: ArraySteps) -> None:
    """Reads this rank's rows.

    Args:
      tables: As `check_tables` has found them.
      checkpoint: See `check_tables`.
      steps: What writes the rows.
    """
    clear_all([column.part.rows for table in tables for column in table.columns], steps)
    for table in tables:
        count = int(checkpoint.tensors[table.name].shape[0])
        if table.keyed.num_keys is not None:
            count = table.keyed.num_keys
        size = rows_of_block(table.width, table.keyed.dtype)
        for first in range(0, count, size):
            _read_block(table, first, min(size, count - first), checkpoint, steps)


def _read_block(table: WholeTable, first: int, count: int, checkpoint: Any, steps: Any) -> None:
    keys = np.arange(first, first + count)
    if table.keyed.num_keys is None:
        keys = checkpoint.rows(table.name + KEYS_SUFFIX, first, count)
    rows = None
    for column in table.columns:
        part = column.part
        mine = np.flatnonzero(part.rows.owners(keys) == part.rows.rank)
        if not len(mine):
            continue
        if rows is None:
            rows = checkpoint.rows(table.name, table.first + first, count)
        columns = slice(part.first_column, part.first_column + part.rows.width)
        key = ("write rows", column.place)
        steps.run(key, part.rows.write, keys[mine], rows[mine][:, columns])


def _rows_and_first(spec: str) -> Tuple[int, int]:
    """Of all of a tensor, and where a slice of its rows begins: "20 8 5,10:0,8" has 20 and 5.

    Raises:
      tf.errors.UnimplementedError: The slice has not all columns.
    """
    *shape, slices = spec.split(" ")
    extents = [one.split(",") for one in slices.split(":")]
    for size, extent in zip(shape[1:], extents[1:]):
        if extent not in (["-"], ["0", size]):
            text = "a table that is divided among ranks is saved as columns of another: " + spec
            raise tf.errors.UnimplementedError(None, None, text)
    return int(shape[0]), 0 if extents[0] == ["-"] else int(extents[0][0])
