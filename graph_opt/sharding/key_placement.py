"""Which rank has which rows of a table that gives rows to keys when they come.

In an exchange, keys take the place of rows. An owner finds the keys that all ranks ask for at once,
as those of one batch, so that filters count what all ranks have seen. It sums gradients by key, in
the order of ranks, and the IndexedSlices that it gets have its keys as indices.
"""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.ops.dynamic_table import BY_KEY, BY_KEY_1000
from graph_opt.sharding.placement import RowsRule


class RowsByKey(RowsRule):
    """Rows come and go with their keys, any integers, and a key is always on the same rank.

    Args:
      num_ranks: Ranks among which they are divided.
      owner_rule: `BY_KEY`: key k is on rank k % N; `BY_KEY_1000`: on rank k % 1000 % N. Remainders
        are not negative.
      rank: The rank that has all keys; None if they are divided.

    Example:
      >>> RowsByKey(2).owner(-7), RowsByKey(3, BY_KEY_1000).owner(1001)
      (1, 1)
    """

    def __init__(
        self, num_ranks: int, owner_rule: str = BY_KEY, rank: Optional[int] = None
    ) -> None:
        super().__init__(0, num_ranks)
        self.rank = rank
        if owner_rule not in (BY_KEY, BY_KEY_1000):
            raise ValueError(
                "owner_rule is {!r}; choose {!r} or {!r}".format(owner_rule, BY_KEY, BY_KEY_1000)
            )
        self.owner_rule = owner_rule

    def owner(self, keys: Any) -> Any:
        """See `RowsRule`."""
        if self.rank is not None:
            return keys * 0 + self.rank
        if self.owner_rule == BY_KEY_1000:
            keys = keys % 1000
        return keys % self.num_ranks

    def local_row(self, keys: Any) -> Any:
        """The keys: where their rows are, their owner knows."""
        return keys

    def key(self, rank: int, local_rows: Any) -> Any:
        """See `local_row`."""
        return local_rows

    def num_local_rows(self, rank: int) -> int:
        """Rows from the start: none."""
        return 0
