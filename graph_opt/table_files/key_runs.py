"""In which order a file has its keys, in little memory."""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

Array = np.ndarray


class KeyRuns:
    """Keys of a file as arithmetic sequences: ranks write theirs block by block, each by its rule.

    Args:
      num_rows: How many keys there are.
    """

    def __init__(self, num_rows: int) -> None:
        self._num_rows = num_rows
        self._seen = np.zeros([num_rows], bool)
        self._in_range = True
        self._count = 0
        self._runs: List[Tuple[Array, Array, Array, Array]] = []
        self._joined: Tuple[Array, ...] = ()

    def add(self, keys: Array) -> None:
        """The next keys of the file."""
        inside = (keys >= 0) & (keys < self._num_rows)
        self._in_range = self._in_range and bool(inside.all())
        if not self._in_range:  # Then rows are read in the order of the file.
            self._runs = []
            return
        self._seen[keys] = True
        steps = np.diff(keys)
        begins = np.concatenate([[0], 2 + np.flatnonzero(steps[1:] != steps[:-1])])
        if (steps <= 0).any():
            begins = np.union1d(begins, 1 + np.flatnonzero(steps <= 0))
        sizes = np.diff(np.concatenate([begins, [len(keys)]]))
        strides = np.ones(len(begins), np.int64)
        longer = sizes > 1
        strides[longer] = keys[begins[longer] + 1] - keys[begins[longer]]
        self._runs.append((keys[begins], strides, sizes, begins + self._count))
        self._count += len(keys)

    @property
    def are_all(self) -> bool:
        """Whether they are the numbers of the rows, in any order.

        Raises:
          ValueError: Keys occur twice.
        """
        if self._in_range and not self._seen.all():
            raise ValueError("has keys twice, and none for row {}".format(np.argmin(self._seen)))
        return self._in_range

    def positions(self, first: int, count: int) -> Tuple[Array, Array]:
        """Where keys [first, first + count) are, in the order of the file; all are there.

        Returns:
          Positions in the file, and the key at each.
        """
        if not self._joined:
            self._joined = tuple(np.concatenate(parts) for parts in zip(*self._runs))
        starts, strides, sizes, places = self._joined
        begins = np.clip(-((starts - first) // strides), 0, sizes)
        ends = np.clip(-((starts - (first + count)) // strides), 0, sizes)
        some = ends > begins
        counts = (ends - begins)[some]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        within += np.repeat(begins[some], counts)
        positions = np.repeat(places[some], counts) + within
        return positions, np.repeat(starts[some], counts) + np.repeat(
            strides[some], counts
        ) * within
