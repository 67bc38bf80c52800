"""Rows of all ranks, for what they do together."""

from __future__ import annotations

from typing import Dict, Mapping, Optional

import numpy as np

from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.agreement import Agreement
from graph_opt.sharding.whole_tables import Column, RowsOfRanks, WholeTable
from graph_opt.table_files.checkpoint_slices import SliceWriter, TensorSlice


class RanksTogether(RowsOfRanks):
    """Rows of all ranks, on rank 0: each reads its own and sends them.

    Args:
      ranks: Notes errors; to be asked to agree afterwards.
      steps: What runs the steps.
    """

    def __init__(self, ranks: Agreement, steps: ArraySteps) -> None:
        self.size = ranks.size
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
                mine = np.ascontiguousarray(read).reshape(-1).view(np.uint8)
        dtype = rows.dtype.as_numpy_dtype
        received = self._ranks.collect(mine)
        return {
            rank: data.view(dtype).reshape(-1, rows.width)
            for rank, data in enumerate(received)
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
