"""Whole tables in checkpoints, written by one rank and read by each: block by block.

A checkpoint is the one that a single process with whole tables would write, and any number of
ranks, or such a process, can go on from it.
"""

from __future__ import annotations

import abc
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.keyed_rows import KeyedRows, TablePart, clear_all
from graph_opt.sharding.saver_nodes import SavedVariable
from graph_opt.sharding.table_variables import Parts
from graph_opt.table_files.checkpoint_rows import tensorflow_errors
from graph_opt.table_files.checkpoint_slices import SliceWriter, TensorSlice
from graph_opt.table_files.row_blocks import block_bytes, blocks_of


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
      rows: How many rows the tensor has.
      first: Where the table begins in it: savers may hold a tensor in several variables.
      columns: All columns, wherever they are.
      most_rows: The most of them in memory at a time; 0 for those of a usual block.
    """

    name: str
    rows: int
    first: int
    columns: Tuple[Column, ...]
    most_rows: int = 0

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.columns[0].part.table_width

    @property
    def keyed(self) -> KeyedRows:
        """The rows of its first columns."""
        return self.columns[0].part.rows

    @property
    def num_keys(self) -> int:
        """Number of rows of the table."""
        return _num_keys_of(self.keyed)

    def blocks(self) -> Iterator[Tuple[int, int]]:
        """The first row of each block of the table, and how many it has."""
        return blocks_of(self.num_keys, self.width * self.keyed.dtype.size, self.most_rows)

    def shape(self) -> List[int]:
        """Shape of the tensor."""
        return [self.rows, self.width]


class RowsOfRanks(abc.ABC):
    """Rows of all ranks, as one of them gets them, or all."""

    size: int

    @abc.abstractmethod
    def read(self, table: WholeTable, column: Column, keys: Mapping[int, np.ndarray]) -> Any:
        """Rows of ranks: for each its own keys, which ascend and lie one after another there."""


def whole_table(name: str, rows: KeyedRows) -> WholeTable:
    """A table, all of whose columns are in one variable, under a name in checkpoints."""
    part = TablePart(rows.name, rows, 0, rows.width)
    return WholeTable(name, _num_keys_of(rows), 0, (Column(Place(rows.name, 0), part),))


def whole_tables(saved: Sequence[SavedVariable], parts: Parts) -> List[WholeTable]:
    """The tensors that variables stand for in a checkpoint."""
    found: Dict[str, WholeTable] = {}
    for one in saved:
        of_variable = parts[one.variable]
        is_table = len(of_variable) == 1 and of_variable[0].name == one.variable
        for number, part in enumerate(of_variable):
            name = one.name if is_table else part.name
            rows, first = _rows_and_first(one.spec) if one.spec else (_num_keys_of(part.rows), 0)
            key = "{} {}".format(name, first)
            before = found[key].columns if key in found else ()
            columns = (*before, Column(Place(one.variable, number), part))
            found[key] = WholeTable(name, rows, first, columns)
    return [found[key] for key in sorted(found)]


def write_tables(tables: Sequence[WholeTable], ranks: RowsOfRanks, parts: SliceWriter) -> None:
    """Writes tables as slices of their tensors, one table after another."""
    waiting: List[TensorSlice] = []
    num_bytes = 0
    for table in tables:
        for piece in slices(table, ranks):
            if waiting and num_bytes + piece.values.nbytes > block_bytes():
                parts.write(*waiting)
                waiting, num_bytes = [], 0
            waiting.append(piece)
            num_bytes += piece.values.nbytes
    if waiting:
        parts.write(*waiting)


def slices(table: WholeTable, ranks: RowsOfRanks) -> Iterator[TensorSlice]:
    """A table, block by block."""
    for first, count in table.blocks():
        keys = np.arange(first, first + count)
        rows = np.empty([len(keys), table.width], table.keyed.dtype.as_numpy_dtype)
        for column in table.columns:
            part = column.part
            owners = part.rows.owners(keys)
            asked = {int(rank): keys[owners == rank] for rank in np.unique(owners)}
            columns = slice(part.first_column, part.first_column + part.rows.width)
            for rank, received in ranks.read(table, column, asked).items():
                rows[owners == rank, columns] = received
        yield TensorSlice(table.name, table.rows, table.first + first, rows)


def check_tables(tables: Sequence[WholeTable], checkpoint: Any) -> None:
    """Whether a checkpoint has tables as they are here, and is whole.

    Args:
      tables: The tables.
      checkpoint: A `CheckpointRows`, or what reads one on another rank.

    Raises:
      tf.errors.NotFoundError: It lacks one.
      tf.errors.InvalidArgumentError: One has another shape or dtype there.
      tf.errors.DataLossError: One is damaged.
    """
    for table in tables:
        if table.name not in checkpoint.tensors:
            text = "Key {} not found in checkpoint {}".format(table.name, checkpoint.prefix)
            raise tf.errors.NotFoundError(None, None, text)
        there = checkpoint.tensors[table.name]
        if list(there.shape) != table.shape() or there.dtype != table.keyed.dtype:
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                "{} of checkpoint {} has shape {} and dtype {}; the whole table has {} and "
                "{}".format(
                    table.name,
                    checkpoint.prefix,
                    list(there.shape),
                    there.dtype.name,
                    table.shape(),
                    table.keyed.dtype.name,
                ),
            )
    with tensorflow_errors():
        for table in tables:
            checkpoint.check(table.name)


def clear_tables(tables: Sequence[WholeTable], steps: ArraySteps) -> None:
    """Makes tables ready for all their rows to be read."""
    if tables:
        clear_all([column.part.rows for table in tables for column in table.columns], steps)


def read_tables(tables: Sequence[WholeTable], checkpoint: Any, steps: ArraySteps) -> None:
    """Reads this rank's rows.

    Args:
      tables: As `check_tables` has found them.
      checkpoint: See `check_tables`; or what has its `rows`.
      steps: What writes the rows.
    """
    for table in tables:
        for first, count in table.blocks():
            _read_block(table, first, count, checkpoint, steps)


def _read_block(table: WholeTable, first: int, count: int, checkpoint: Any, steps: Any) -> None:
    for column, keys, rows in own_rows(table, first, count, checkpoint):
        if len(keys):
            steps.run(("write rows", column.place), column.part.rows.write, keys, rows)


def own_rows(
    table: WholeTable, first: int, count: int, checkpoint: Any
) -> Iterator[Tuple[Column, np.ndarray, np.ndarray]]:
    """Keys of a block that this rank has, and their rows, for each column."""
    keys, dtype = np.arange(first, first + count), table.keyed.dtype.as_numpy_dtype
    rows = None
    for column in table.columns:
        part = column.part
        mine = np.flatnonzero(part.rows.owners(keys) == part.rows.rank)
        if rows is None and len(mine):
            rows = checkpoint.rows(table.name, table.first + first, count)
        columns = slice(part.first_column, part.first_column + part.rows.width)
        found = np.empty([0, part.rows.width]) if rows is None else rows[:, columns][mine]
        yield column, keys[mine], found.astype(dtype, copy=False)


def _num_keys_of(rows: KeyedRows) -> int:
    assert rows.num_keys is not None
    return rows.num_keys


def _rows_and_first(spec: str) -> Tuple[int, int]:
    """Of all of a tensor, and where a slice of its rows begins: "20 8 5,10:0,8" has 20 and 5.

    Raises:
      tf.errors.UnimplementedError: The slice has not all columns.
    """
    *shape, slices = spec.split(" ")
    extents = [one.split(",") for one in slices.split(":")]
    for size, extent in zip(shape[1:], extents[1:]):
        if extent not in (["-"], ["0", size]):
            text = "a table that is sharded across ranks is saved as columns of another: " + spec
            raise tf.errors.UnimplementedError(None, None, text)
    return int(shape[0]), 0 if extents[0] == ["-"] else int(extents[0][0])
