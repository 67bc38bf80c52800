"""Which rows of a table have changed, found by comparing all of them with what they were."""

from __future__ import annotations

import time
from typing import List, Optional, Tuple

import numpy as np

from graph_opt.compat.array_steps import ArraySteps
from graph_opt.sharding.keyed_rows import KeyedRows

_BLOCK_BYTES = 64 << 20
_WORD = np.dtype(np.uint32)


def now_micros() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


class ChangedRows:
    """When this rank's rows of a table were found to have changed.

    Whatever writes them: rows are compared whenever `since` is called, by two sums of 64 bits each,
    so that of 2^64 changes less than one is not found.

    Args:
      rows: The rows, whose number is fixed.
    """

    def __init__(self, rows: KeyedRows) -> None:
        assert rows.fixed_rows is not None
        self._rows = rows
        self._count = rows.fixed_rows
        self._sums: Optional[np.ndarray] = None
        self._times = np.zeros([self._count], np.int64)

    @property
    def is_new(self) -> bool:
        """Whether there is nothing to compare with yet: `since` then takes all rows for changed."""
        return self._sums is None

    def since(self, steps: ArraySteps, moment: int) -> Tuple[np.ndarray, np.ndarray]:
        """The rows that were found to have changed after a moment, this time included.

        Args:
          steps: What reads rows.
          moment: In microseconds since 1970.

        Returns:
          int64 keys [n], and rows [n, width].
        """
        found = now_micros()
        sums = np.zeros([self._count, 2], np.uint64) if self._sums is None else self._sums
        keys: List[np.ndarray] = []
        values: List[np.ndarray] = []
        row_bytes = self._rows.width * self._rows.dtype.size
        block = max(1, _BLOCK_BYTES // row_bytes)
        # One block, if an empty one, of tables without rows as well: for the types of the arrays.
        for first in range(0, max(1, self._count), block):
            block_keys, rows = steps.run(
                ("block", self._rows.name), self._rows.block, np.int64(first), np.int64(block)
            )
            here = slice(first, first + len(rows))
            new_sums = _sums(rows)
            changed = (new_sums != sums[here]).any(axis=1) | self.is_new
            self._times[here][changed] = found
            sums[here] = new_sums
            wanted = self._times[here] > moment
            keys.append(block_keys[wanted])
            values.append(rows[wanted])
        self._sums = sums
        return np.concatenate(keys), np.concatenate(values)


def _sums(rows: np.ndarray) -> np.ndarray:
    """[n, 2]: sums of the words of each row, times fixed random odd factors."""
    row_bytes = rows.shape[1] * rows.itemsize
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), row_bytes)
    missing = -data.shape[1] % _WORD.itemsize
    if missing:
        data = np.pad(data, [(0, 0), (0, missing)])
    words = np.ascontiguousarray(data).view(_WORD).astype(np.uint64)
    random = np.random.RandomState(1)
    factors = random.randint(0, 2**63, [words.shape[1], 2], np.uint64) * np.uint64(2) + np.uint64(1)
    sums: np.ndarray = words @ factors
    return sums
