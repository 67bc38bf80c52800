"""Blocks of rows, as tables pass through memory."""

from __future__ import annotations

from typing import Iterator, Tuple

_BLOCK_BYTES = 32 << 20


def block_bytes() -> int:
    """The most bytes of a table that are in memory at a time, unless a row has more."""
    return _BLOCK_BYTES


def rows_of_block(row_bytes: int) -> int:
    """How many rows are in memory at a time."""
    return max(1, _BLOCK_BYTES // max(1, row_bytes))


def blocks_of(num_rows: int, row_bytes: int, most: int = 0) -> Iterator[Tuple[int, int]]:
    """The first row of each block, and how many it has; one block of none if there are no rows.

    Args:
      num_rows: How many rows there are.
      row_bytes: Bytes of each.
      most: The most rows of a block; 0 for as many as are in memory at a time.
    """
    size = most or rows_of_block(row_bytes)
    for first in range(0, max(1, num_rows), size):
        yield first, min(size, num_rows - first)
