"""Whole tables out of the parts that ranks have, and back, a block at a time."""

from __future__ import annotations

from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.distributed_embeddings.placed_tables import PlacedColumns, PlacedTable
from graph_opt.distributed_embeddings.weight_sources import WeightSource, sources_of
from graph_opt.distributed_embeddings.weight_targets import WeightTarget
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.placement import ReplicatedRows
from graph_opt.sharding.transport import Transport

# Blocks never have more elements than this, however large a chunk may be.
_MOST_ELEMENTS = 1 << 22
_RECEIVED_BYTES = 1 << 30


class _Block(NamedTuple):
    """Some rows of each rank's part of a table: `size` from local row `first` on."""

    part: PlacedColumns
    first: int
    size: int

    def keys(self, rank: int) -> np.ndarray:
        return self.part.rows.keys(rank, self.first, self.size)


def write_tables(
    find_tables: Callable[[], Sequence[PlacedTable]],
    weights: Sequence[Any],
    transport: Transport,
    chunk: int,
    use_lock: bool,
    session: Any = None,
) -> None:
    """Writes whole tables; to be called by all ranks, each of which writes its own parts.

    Args:
      find_tables: Returns the tables, or fails.
      weights: For each an array or the path of a .npy file: the same on all ranks.
      transport: How to reach the other ranks.
      chunk: Most elements in memory at once.
      use_lock: Whether ranks take turns.
      session: None for eager tables.

    Raises:
      ValueError: Weights do not fit; nothing has changed then.
      OSError: A file cannot be read.
      RuntimeError: Another rank has failed.
    """
    steps = ArraySteps(session)
    ranks = Agreement(transport, steps)
    tables: Sequence[PlacedTable] = []
    sources: List[WeightSource] = []
    with ranks.noting():
        tables = find_tables()
        sources = sources_of(weights, tables)
    ranks.agree()
    for turn in range(transport.size if use_lock else 1):
        with ranks.noting():
            if not use_lock or turn == transport.rank:
                _write_own(tables, sources, steps, transport.rank, chunk)
        ranks.agree()


def read_tables(
    find_tables: Callable[[], Sequence[PlacedTable]],
    transport: Transport,
    all_ranks: bool,
    chunk: int,
    paths: Optional[Sequence[Any]] = None,
    session: Any = None,
) -> List[np.ndarray]:
    """Whole tables; to be called by all ranks.

    Args:
      find_tables: Returns the tables, or fails.
      transport: How to reach the other ranks.
      all_ranks: Whether all ranks get them, or only rank 0.
      chunk: Most elements of a rank that are sent at once.
      paths: None, or a .npy file for each table, which rank 0 writes.
      session: None for eager tables.

    Returns:
      [rows, width] of each table, on ranks that get them; of a table in a file, its memory map.

    Raises:
      ValueError: There are more or fewer paths than tables, or all ranks want files.
      OSError: A file cannot be written.
      RuntimeError: Another rank has failed.
    """
    reading = _Reading(transport, all_ranks, chunk, session)
    tables: Sequence[PlacedTable] = []
    with reading.ranks.noting():
        tables = find_tables()
    reading.ranks.agree()
    if paths is not None and (all_ranks or len(paths) != len(tables)):
        raise ValueError(
            "paths needs one file for each of the {} tables, and all_ranks=False: rank 0 writes "
            "them".format(len(tables))
        )
    targets: List[WeightTarget] = []
    try:
        for place, table in enumerate(tables):
            with reading.ranks.noting():
                if reading.receives:
                    targets.append(WeightTarget(table, None if paths is None else paths[place]))
            reading.ranks.agree()
            for part in table.parts:
                reading.read(part, table.dtype, targets[-1] if targets else None)
            reading.ranks.agree()
        whole: List[np.ndarray] = []
        with reading.ranks.noting():
            whole.extend(target.finish() for target in targets)
        reading.ranks.agree()
        return whole
    except BaseException:
        for target in targets:
            target.discard()
        raise


class _Reading:
    """What stays the same while tables are read."""

    def __init__(self, transport: Transport, all_ranks: bool, chunk: int, session: Any) -> None:
        self.receives = all_ranks or transport.rank == 0
        self._steps = ArraySteps(session)
        self.ranks = Agreement(transport, self._steps)
        self._send: Any = self.ranks.gather if all_ranks else self.ranks.collect
        self._rank, self._size = transport.rank, transport.size
        self._chunk = chunk

    def read(self, part: PlacedColumns, dtype: Any, target: Optional[WeightTarget]) -> None:
        """Brings some columns of a table here, from all ranks that have rows of them."""
        numbers = np.dtype(dtype.as_numpy_dtype)
        most = _rows_of(part, self._chunk)
        if isinstance(part.rows, ReplicatedRows):
            for block in _blocks(part, part.rows.num_rows, most if target else 0):
                with self.ranks.noting():
                    assert target is not None
                    rows = self._rows(block)
                    target.put(block.keys(self._rank), part.first_column, rows)
            return
        counts = [part.rows.num_local_rows(rank) for rank in range(self._size)]
        row_bytes = self._size * part.width * numbers.itemsize
        for block in _blocks(part, max(counts), min(most, max(1, _RECEIVED_BYTES // row_bytes))):
            mine = np.zeros([0], np.uint8)
            with self.ranks.noting():
                mine = self._rows(block).reshape(-1).view(np.uint8)
            received = self._send(mine)
            with self.ranks.noting():
                for rank, data in enumerate(received if target else []):
                    if len(data):
                        assert target is not None
                        rows = data.view(numbers).reshape(-1, part.width)
                        target.put(block.keys(rank), part.first_column, rows)

    def _rows(self, block: _Block) -> np.ndarray:
        """This rank's rows of a block, of which it may have none."""
        part = block.part
        count = min(block.size, part.rows.num_local_rows(self._rank) - block.first)
        if part.variable is None or count <= 0:
            return np.zeros([0], np.uint8)

        def read(first: Any, count: Any) -> tf.Tensor:
            return tf.gather(part.variable, part.first_row + first + tf.range(count))

        key = "read rows", part.variable.name, part.first_row
        rows = self._steps.run(key, read, np.int64(block.first), np.int64(count))
        return np.ascontiguousarray(rows)


def assign_op(tables: Sequence[PlacedTable], weights: Sequence[Any], rank: int, chunk: int) -> Any:
    """The op of a graph that writes this rank's parts of whole tables, block by block.

    Args:
      tables: The tables.
      weights: As for `write_tables`; read whenever the op runs.
      rank: Number of this rank.
      chunk: Most elements in memory at once.
    """
    sources = sources_of(weights, tables)
    done: List[Any] = []
    with tf.name_scope("assign_weights"):
        for table, source in zip(tables, sources):
            for part in _own_parts(table, rank):
                with tf.control_dependencies(done[-1:]):  # one block in memory at a time
                    done.append(_assigned(part, source, rank, _rows_of(part, chunk)))
        return tf.group(*done)


def _assigned(part: PlacedColumns, source: WeightSource, rank: int, rows_at_once: int) -> Any:
    dtype = part.variable.dtype.base_dtype

    def read(first: Any) -> np.ndarray:
        keys = part.rows.keys(rank, int(first), rows_at_once)
        return source.block(keys, part.first_column, part.width)

    def write(first: tf.Tensor) -> tf.Tensor:
        rows = tf.numpy_function(read, [first], dtype)
        rows.set_shape([None, part.width])
        written = _write(part, first, rows)
        with tf.control_dependencies([written]):
            return first + rows_at_once

    count = tf.constant(part.rows.num_local_rows(rank), tf.int64)
    start = tf.constant(0, tf.int64)
    end = tf.while_loop(lambda first: first < count, write, [start], parallel_iterations=1)
    return tf.identity(end).op


def _write_own(
    tables: Sequence[PlacedTable],
    sources: Sequence[WeightSource],
    steps: ArraySteps,
    rank: int,
    chunk: int,
) -> None:
    for table, source in zip(tables, sources):
        for part in _own_parts(table, rank):
            key = "write rows", part.variable.name, part.first_row

            def write(first: Any, rows: Any, part: PlacedColumns = part) -> Any:
                return _write(part, first, rows)

            for block in _blocks(part, part.rows.num_local_rows(rank), _rows_of(part, chunk)):
                rows = source.block(block.keys(rank), part.first_column, part.width)
                steps.run(key, write, np.int64(block.first), rows)


def _write(part: PlacedColumns, first: Any, rows: Any) -> Any:
    """In graphs the op: the variable itself would be read, all of it, by whoever gets it."""
    places = part.first_row + first + tf.range(tf.shape(rows, out_type=tf.int64)[0])
    written = part.variable.scatter_update(tf.IndexedSlices(rows, places))
    return None if tf.executing_eagerly() else written.op


def _own_parts(table: PlacedTable, rank: int) -> List[PlacedColumns]:
    return [
        part
        for part in table.parts
        if part.variable is not None and part.rows.num_local_rows(rank) > 0
    ]


def _blocks(part: PlacedColumns, num_rows: int, rows_at_once: int) -> Iterator[_Block]:
    for first in range(0, num_rows if rows_at_once else 0, rows_at_once or 1):
        yield _Block(part, first, min(rows_at_once, num_rows - first))


def _rows_of(part: PlacedColumns, chunk: int) -> int:
    return max(1, min(int(chunk), _MOST_ELEMENTS) // max(1, part.width))
