"""Whole tables out of the parts that ranks have, and back, a block at a time."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.array_steps import ArraySteps
from graph_opt.distributed_embeddings.placed_tables import PlacedTable
from graph_opt.distributed_embeddings.whole_weights import WeightSource, WeightTarget, sources_of
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.keyed_rows import KeyedRows
from graph_opt.sharding.ranks_together import NotedSlices, RanksTogether
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.whole_tables import WholeTable, own_rows, slices
from graph_opt.sharding.whole_tables import read_tables as read_rows


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
                for table, source in zip(tables, sources):
                    read_rows([table.whole(transport.rank, chunk)], source, steps)
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
      chunk: Most elements in memory at once.
      paths: None, or a .npy file for each table, which rank 0 writes.
      session: None for eager tables.

    Returns:
      [rows, width] of each table, on ranks that get them; of a table in a file, its memory map.

    Raises:
      ValueError: There are more or fewer paths than tables, or all ranks want files.
      OSError: A file cannot be written.
      RuntimeError: Another rank has failed.
    """
    steps = ArraySteps(session)
    ranks = Agreement(transport, steps)
    together = RanksTogether(ranks, steps, all_ranks)
    tables: Sequence[PlacedTable] = []
    with ranks.noting():
        tables = find_tables()
    ranks.agree()
    if paths is not None and (all_ranks or len(paths) != len(tables)):
        raise ValueError(
            "paths needs one file for each of the {} tables, and all_ranks=False: rank 0 writes "
            "them".format(len(tables))
        )
    targets: List[WeightTarget] = []
    try:
        for place, table in enumerate(tables):
            with ranks.noting():
                if all_ranks or ranks.rank == 0:
                    targets.append(WeightTarget(table, None if paths is None else paths[place]))
            ranks.agree()
            writer = NotedSlices(ranks, targets[-1] if targets else None)
            for block in slices(table.whole(ranks.rank, chunk), together):
                writer.write(block)
            ranks.agree()
        whole: List[np.ndarray] = []
        with ranks.noting():
            whole.extend(target.finish() for target in targets)
        ranks.agree()
        return whole
    except BaseException:
        for target in targets:
            target.discard()
        raise


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
            whole = table.whole(rank, chunk)
            own = [one.part.rows for one in whole.columns if one.part.rows.fixed_rows]
            with tf.control_dependencies(done[-1:]):  # one block in memory at a time
                done += [_assigned(whole, own, source)] if own else []
        return tf.group(*done)


def _assigned(table: WholeTable, own: Sequence[KeyedRows], source: WeightSource) -> Any:
    def read(first: Any) -> List[np.ndarray]:
        count = min(table.most_rows, table.num_keys - int(first))
        found = own_rows(table, int(first), count, source)
        return [array for column, *arrays in found if column.part.rows in own for array in arrays]

    def write(first: tf.Tensor) -> tf.Tensor:
        dtypes = [dtype for rows in own for dtype in (tf.int64, rows.dtype)]
        arrays = tf.numpy_function(read, [first], dtypes)
        written = []
        for rows, keys, values in zip(own, arrays[::2], arrays[1::2]):
            keys.set_shape([None])
            values.set_shape([None, rows.width])
            written.append(rows.write(keys, values))
        with tf.control_dependencies(written):
            return first + table.most_rows

    count = tf.constant(table.num_keys, tf.int64)
    start = tf.constant(0, tf.int64)
    end = tf.while_loop(lambda first: first < count, write, [start], parallel_iterations=1)
    return tf.identity(end).op
