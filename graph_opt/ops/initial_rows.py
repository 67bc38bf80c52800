"""First values of a table's rows, each a function of its row, its column and a key alone."""

from __future__ import annotations

from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.ops.library import load_library

UNIFORM = "uniform"
NORMAL = "normal"
TRUNCATED_NORMAL = "truncated_normal"


def initial_rows(
    rows: Any,
    width: int,
    distribution: str,
    first: float,
    second: float,
    key: int,
    column: int = 0,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Random rows from Philox 4x32-10: a row is the same whoever makes it.

    Args:
      rows: int64 [n]. Numbers of the rows, or keys.
      width: Number of columns.
      distribution: `uniform`, `normal` or `truncated_normal` (within two standard deviations).
      first: Lower bound, or mean.
      second: Upper bound, or standard deviation.
      key: Of the table's random numbers, any int64.
      column: The column of the table to begin with.
      name: Name of the node.

    Returns:
      float32 [n, width].

    Example:
      >>> odd = initial_rows([1, 3], width=16, distribution="uniform", first=0, second=1, key=7)
    """
    return load_library().group_embedding_initial_rows(
        rows=tf.cast(rows, tf.int64),
        distribution=distribution,
        first=first,
        second=second,
        key=key,
        column=column,
        width=width,
        name=name,
    )
