"""Tables of all ranks in files, and back: by key, whatever the number of ranks was then or is now.

Rank 0 writes, and so do not all ranks need the folder; to load, all do. Rows pass through memory in
blocks.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.keyed_rows import KeyedRows, clear_all
from graph_opt.sharding.transport import Transport
from graph_opt.table_files.sok_files import (
    TableFiles,
    TableWriter,
    as_bytes,
    files_of,
    stored_column,
)
from graph_opt.table_files.sok_reader import TableReader
from graph_opt.table_files.tables import Column

REPLACE = "replace"
MERGE = "merge"
MODES = (REPLACE, MERGE)
_BLOCK_BYTES = 64 << 20
_RECEIVED_BYTES = 1 << 30
# What files have no number for travels as another dtype, without loss.
_STORED_AS = {tf.bfloat16: tf.float32}


class SavedTable(NamedTuple):
    """A table, and what an optimizer keeps for it.

    Attributes:
      file_name: What its files are named after.
      rows: The weights.
      optimizer: What the optimizer is called in names of files; empty if there is none.
      slots: By name.
      counters: Variables that count the optimizer's steps, by name.
    """

    file_name: str
    rows: KeyedRows
    optimizer: str
    slots: Mapping[str, KeyedRows]
    counters: Mapping[str, Any]

    @property
    def files(self) -> TableFiles:
        """Its files.

        Raises:
          ValueError: The format has no number for a dtype.
        """
        columns = [_column("", "", self.rows)]
        columns += [_column(self.optimizer, *named) for named in sorted(self.slots.items())]
        return files_of(self.file_name, columns, self.rows.key_dtype.name)

    @property
    def columns(self) -> List[KeyedRows]:
        """Weights and slots, in the order of their files."""
        return [self.rows] + [slot for _, slot in sorted(self.slots.items())]


def dump_tables(
    path: str, tables: Sequence[SavedTable], transport: Transport, session: Any = None
) -> None:
    """Writes tables into a folder; to be called by all ranks, between steps.

    Args:
      path: The folder, which rank 0 makes.
      tables: The same on all ranks.
      transport: How to reach the others.
      session: None for eager tables.

    Raises:
      ValueError: Ranks dump different tables, or a name does not fit the format.
      OSError: On rank 0, a file cannot be written. An earlier dump is still whole.
      RuntimeError: Another rank has failed.
    """
    steps = ArraySteps(session)
    ranks = Agreement(transport, steps)
    _compare(ranks, tables)
    writers: List[TableWriter] = []
    counters = steps.run(*_counters(tables))
    with ranks.noting():
        if ranks.rank == 0:
            os.makedirs(path, exist_ok=True)
    ranks.agree()
    try:
        for table in tables:
            with ranks.noting():
                if ranks.rank == 0:
                    writers.append(TableWriter(path, table.files))
            _send_rows(ranks, steps, table, writers)
            ranks.agree()
        with ranks.noting():
            for writer in writers:
                writer.finish()
            for writer, table, values in zip(writers, tables, counters):
                writer.publish(_facts(table, transport, values))
        ranks.agree()
    except BaseException:
        for writer in writers:
            writer.discard()
        raise


def load_tables(
    path: str,
    tables: Sequence[SavedTable],
    transport: Transport,
    session: Any = None,
    mode: str = REPLACE,
) -> None:
    """Reads tables from a folder, each rank its own rows; to be called by all ranks.

    Args:
      path: The folder, which all ranks see.
      tables: The same on all ranks.
      transport: How to reach the others.
      session: None for eager tables.
      mode: `replace`: the files must have every row of a table whose rows are numbered; `merge`:
        rows that the files do not have stay.

    Raises:
      FileNotFoundError: A file is missing.
      ValueError: Files are damaged, or not those of such tables.
      RuntimeError: Another rank has failed.
    """
    steps = ArraySteps(session)
    ranks = Agreement(transport, steps)
    _compare(ranks, tables)
    readers: List[TableReader] = []
    with ranks.noting():
        for table in tables:
            readers.append(TableReader(path, table.files))
            _check_keys(steps, table, readers[-1], mode)
    ranks.agree()
    with ranks.noting():
        if mode == REPLACE:
            clear_all([column for table in tables for column in table.columns], steps)
        for table, reader in zip(tables, readers):
            _write_rows(steps, table, reader)
            _write_counters(steps, table, reader)
    ranks.agree()


def prepare_saving(tables: Sequence[SavedTable], transport: Transport, session: Any) -> None:
    """Adds the nodes that saving needs, for programs that count on a graph that stays as it is."""
    steps = ArraySteps(session)
    Agreement(transport, steps).prepare()
    steps.prepare(*_counters(tables))
    for table in tables:
        if table.rows.fixed_rows is None:
            steps.prepare(_key("count", table), table.rows.num_rows)
        steps.prepare(_key("block", table), _read_block(table), np.int64(0), np.int64(0))


def _compare(ranks: Agreement, tables: Sequence[SavedTable]) -> None:
    """Fails on all ranks if they are about to save different tables."""
    mine = [
        [table.file_name, table.rows.num_keys, [list(one) for one in table.files.files]]
        for table in tables
    ]
    said = [json.loads(bytes(one)) for one in ranks.gather(json.dumps(mine).encode("utf-8"))]
    first: List[Any] = said[0]
    for rank, other in enumerate(said):
        for place in range(max(len(first), len(other))):
            here = first[place] if place < len(first) else None
            there = other[place] if place < len(other) else None
            if here != there:
                raise ValueError(
                    "ranks must save and load the same tables: table {} is {} on rank 0 and {} on "
                    "rank {}".format(place, here, there, rank)
                )


def _send_rows(
    ranks: Agreement, steps: ArraySteps, table: SavedTable, writers: Sequence[TableWriter]
) -> None:
    """Brings all rows to rank 0: a block of each rank, then the next block of each."""
    nothing = np.zeros([0], np.uint8)
    mine = 0
    with ranks.noting():
        mine = _count(steps, table)
    counts = [int(bytes(one)) for one in ranks.gather(str(mine).encode("utf-8"))]
    block = min(_BLOCK_BYTES, _RECEIVED_BYTES // ranks.size) // table.files.row_bytes
    for first in range(0, max(counts), max(1, block)):
        data = nothing
        with ranks.noting():
            if first < mine and not ranks.has_failed:
                arrays = steps.run(
                    _key("block", table), _read_block(table), np.int64(first), np.int64(block)
                )
                data = as_bytes(arrays)
        received = ranks.collect(data)
        with ranks.noting():
            if ranks.rank == 0 and not ranks.has_failed:
                for part in received:
                    writers[-1].append(part)


def _count(steps: ArraySteps, table: SavedTable) -> int:
    if table.rows.fixed_rows is not None:
        return table.rows.fixed_rows
    return int(steps.run(_key("count", table), table.rows.num_rows))


def _check_keys(steps: ArraySteps, table: SavedTable, reader: TableReader, mode: str) -> None:
    rows = table.rows
    if rows.num_keys is None:
        return
    there = np.zeros([_count(steps, table)], bool)
    for keys in reader.keys():
        owners = rows.owners(keys)
        if (owners < 0).any():
            raise ValueError(
                "the files of {!r} have key {}, but the table has {} rows".format(
                    table.file_name, keys[owners < 0][0], rows.num_keys
                )
            )
        there[rows.places(keys[owners == rows.rank])] = True
    if mode == REPLACE and not there.all():
        missing = np.flatnonzero(~there)[0]
        keys, _ = steps.run(_key("rows", table), rows.block, np.int64(missing), np.int64(1))
        raise ValueError(
            "the files of {!r} have no row for key {} of {}: load them with mode='merge' to keep "
            "such rows as they are".format(table.file_name, keys[0], rows.num_keys)
        )


def _write_rows(steps: ArraySteps, table: SavedTable, reader: TableReader) -> None:
    def write(keys: tf.Tensor, *parts: tf.Tensor) -> Any:
        written = [
            column.write(keys, tf.cast(part, column.dtype))
            for column, part in zip(table.columns, parts)
        ]
        return None if tf.executing_eagerly() else tf.group(*written)

    for keys, *parts in reader.blocks():
        owners = table.rows.owners(keys)
        mine = np.flatnonzero(owners == table.rows.rank)
        if len(mine):
            steps.run(_key("write", table), write, keys[mine], *[part[mine] for part in parts])


def _counters(tables: Sequence[SavedTable]) -> Tuple[Any, Any]:
    """Reads the counters of each table, in the order of their names; for `ArraySteps`."""
    every = [[one for _, one in sorted(table.counters.items())] for table in tables]
    names = tuple(tuple(one.name for one in counters) for counters in every)
    return ("counters", names), lambda: [[tf.identity(one) for one in each] for each in every]


def _write_counters(steps: ArraySteps, table: SavedTable, reader: TableReader) -> None:
    saved: Dict[str, float] = (reader.facts or {}).get("counters", {})
    for name, variable in sorted(table.counters.items()):
        if name in saved:
            value = np.array(saved[name], variable.dtype.base_dtype.as_numpy_dtype)
            steps.run(("counter", variable.name), variable.assign, value)


def _read_block(table: SavedTable) -> Any:
    def read(first: tf.Tensor, count: tf.Tensor) -> List[tf.Tensor]:
        blocks = [column.block(first, count) for column in table.columns]
        stored = [tf.cast(rows, _STORED_AS.get(rows.dtype, rows.dtype)) for _, rows in blocks]
        return [tf.cast(blocks[0][0], table.rows.key_dtype)] + stored

    return read


def _facts(table: SavedTable, transport: Transport, counters: Sequence[Any]) -> Dict[str, Any]:
    values = [np.asarray(value).item() for value in counters]
    return {
        "table": table.rows.name,
        "ranks": transport.size,
        "num_keys": table.rows.num_keys,
        "width": table.rows.width,
        "dtype": table.rows.dtype.name,
        "optimizer": table.optimizer,
        "counters": dict(zip(sorted(table.counters), values)),
    }


def _column(optimizer: str, slot: str, rows: KeyedRows) -> Column:
    dtype = np.dtype(rows.dtype.as_numpy_dtype)
    return stored_column(rows.name, Column(optimizer, slot, dtype, rows.width))


def _key(what: str, table: SavedTable) -> Tuple[Any, ...]:
    variables = list(table.slots.values()) + list(table.counters.values())
    return (what, table.rows.name, tuple(sorted(one.name for one in variables)))
