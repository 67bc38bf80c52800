"""How tables are cut into slices of columns, and which rank gets which slices."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

BASIC = "basic"
MEMORY_BALANCED = "memory_balanced"
MEMORY_OPTIMIZED = "memory_optimized"
STRATEGIES = (BASIC, MEMORY_BALANCED, MEMORY_OPTIMIZED)

Shape = Tuple[int, int]


class ColumnPiece(NamedTuple):
    """Neighbouring columns of a table that are on the same rank.

    Attributes:
      table: Number of the table.
      first_column: The first one.
      width: Their number.
    """

    table: int
    first_column: int
    width: int


def slice_widths(shape: Shape, threshold: Optional[int], num_ranks: int) -> List[int]:
    """Widths of the slices of a table, as even as possible, the earlier ones the wider.

    Args:
      shape: Rows and columns.
      threshold: Most elements of a slice; None for no slices. There are a power of two of them,
        unless that were more than ranks or columns.
      num_ranks: Number of ranks.

    Example:
      >>> slice_widths((100, 7), threshold=250, num_ranks=8)
      [2, 2, 2, 1]
    """
    slices, elements = 1, shape[0] * shape[1]
    while threshold is not None and elements > threshold and slices < shape[1]:
        slices *= 2
        elements //= 2
    slices = min(slices, num_ranks, shape[1])
    return [shape[1] // slices + (place < shape[1] % slices) for place in range(slices)]


def chosen_threshold(shapes: Sequence[Shape], num_ranks: int) -> Optional[int]:
    """The threshold with which there is a slice for each rank; None if tables suffice."""
    sizes = sorted(rows * columns for rows, columns in shapes)
    threshold = None
    while sizes and len(sizes) < num_ranks:
        largest = sizes.pop()
        threshold = largest - 1
        sizes = sorted(sizes + [largest // 2, largest // 2])
    return threshold


def placed_pieces(
    shapes: Sequence[Shape], num_ranks: int, strategy: str, threshold: Optional[int]
) -> List[List[ColumnPiece]]:
    """The pieces of each rank.

    Columns of a table are in the order of their ranks; slices that meet on a rank are one piece.

    Args:
      shapes: Rows and columns of each table.
      num_ranks: Number of ranks.
      strategy: `basic` deals slices out in the order of tables; `memory_balanced` deals them by
        size, back and forth; `memory_optimized` gives the largest to the rank with the least.
      threshold: Most elements of a slice; None: chosen so that each rank gets one.

    Raises:
      ValueError: There is no such strategy, or a rank gets no slice.
    """
    if threshold is None:
        threshold = chosen_threshold(shapes, num_ranks)
    widths = [slice_widths(shape, threshold, num_ranks) for shape in shapes]
    sizes = [(shapes[table][0] * width, table) for table, cut in enumerate(widths) for width in cut]
    if shapes and len(sizes) < num_ranks:
        raise ValueError(
            "Not enough tables after slicing: {} slices of {} tables for {} ranks. Lower "
            "column_slice_threshold, set row_slice_threshold, or use fewer ranks".format(
                len(sizes), len(shapes), num_ranks
            )
        )
    ranks = _dealt(sizes, num_ranks, strategy)
    columns = [0] * len(shapes)
    return [_pieces(tables, widths, columns) for tables in ranks]


def _dealt(sizes: Sequence[Tuple[int, int]], num_ranks: int, strategy: str) -> List[List[int]]:
    """The tables whose slices each rank gets, once for each slice."""
    if strategy == BASIC:
        tables = [table for _, table in sizes]
        return [tables[rank::num_ranks] for rank in range(num_ranks)]
    if strategy == MEMORY_BALANCED:
        tables = [table for _, table in sorted(sizes, reverse=True)]
        period = 2 * num_ranks
        return [
            tables[rank::period] + tables[period - 1 - rank :: period] for rank in range(num_ranks)
        ]
    if strategy == MEMORY_OPTIMIZED:
        loads: List[Tuple[int, List[int]]] = [(0, []) for _ in range(num_ranks)]
        for size, table in sorted(sizes, reverse=True):
            least = min(range(num_ranks), key=lambda rank: loads[rank])
            loads[least] = loads[least][0] + size, loads[least][1] + [table]
        return [tables for _, tables in loads]
    raise ValueError(
        "strategy is {!r}; choose one of {}".format(strategy, ", ".join(map(repr, STRATEGIES)))
    )


def _pieces(
    tables: Sequence[int], widths: Sequence[List[int]], columns: List[int]
) -> List[ColumnPiece]:
    """Takes the next slices of these tables; `columns` tells how many are taken."""
    taken: Dict[int, int] = {}
    for table in tables:
        taken[table] = taken.get(table, 0) + widths[table].pop(0)
    pieces: List[Any] = []
    for table, width in taken.items():
        pieces.append(ColumnPiece(table, columns[table], width))
        columns[table] += width
    return pieces
