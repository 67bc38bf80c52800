"""Rows of all ranks, for what they do together."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import numpy as np

from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.whole_tables import Column, RowsOfRanks, WholeTable
from graph_opt.table_files.checkpoint_slices import SliceWriter, TensorSlice
from graph_opt.table_files.checksums import bytes_of


class RanksTogether(RowsOfRanks):
    """Rows of all ranks, each of which reads its own and sends them.

    Args:
      ranks: Notes errors; to be asked to agree afterwards.
      steps: What runs the steps.
      for_all: Whether all ranks get the rows, or only rank 0.
    """

    def __init__(self, ranks: Agreement, steps: ArraySteps, for_all: bool = False) -> None:
        self.size = ranks.size
        self._send: Any = ranks.gather if for_all else ranks.collect
        self._ranks = ranks
        self._steps = steps

    def read(
        self, table: WholeTable, column: Column, keys: Mapping[int, np.ndarray]
    ) -> Dict[int, np.ndarray]:
        """See `RowsOfRanks`; to be called by all ranks, with the same arguments."""
        mine = np.zeros([0], np.uint8)
        rows, own = column.part.rows, keys.get(self._ranks.rank)
        with self._ranks.noting():
            if own is not None:
                span = np.int64(rows.places(own[:1])[0]), np.int64(len(own))
                read = self._steps.run(("rows", column.place), rows.block, *span)[1]
                mine = np.frombuffer(bytes_of(read), np.uint8)
        sent = {rows.rank: mine} if rows.is_replicated else dict(enumerate(self._send(mine)))
        dtype = rows.dtype.as_numpy_dtype
        return {
            rank: data.view(dtype).reshape(-1, rows.width)
            for rank, data in sent.items()
            if len(data)  # nothing of ranks that have failed
        }


class NotedSlices(SliceWriter):
    """Writes slices on the ranks that shall, until one of their errors is noted.

    Args:
      ranks: Notes errors.
      writer: What writes; None on other ranks.
    """

    def __init__(self, ranks: Agreement, writer: Optional[SliceWriter]) -> None:
        self._ranks = ranks
        self._writer = writer

    def write(self, *slices: TensorSlice) -> None:
        """See `SliceWriter`."""
        with self._ranks.noting():
            if self._writer is not None and not self._ranks.has_failed:
                self._writer.write(*slices)
