"""Rows of tables that a run reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, NamedTuple, Optional, Tuple

from graph_opt.cost.looked_up_ids import group_inputs, named_lookups
from graph_opt.cost.packed_sizes import sent_by, width_of
from graph_opt.cost.variable_size import variable_size
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.looked_up_tables import looked_up_shards
from graph_opt.rules.match.table import find_read, find_table
from graph_opt.rules.op_names import COMBINERS, GROUP_GATHERS, GROUP_LOOKUPS, ROW_GATHERS

if TYPE_CHECKING:
    from graph_opt.cost.tensor_sizes import TensorSizes

ROW_READERS = ROW_GATHERS | GROUP_LOOKUPS | GROUP_GATHERS | frozenset(COMBINERS)


class RowsRead(NamedTuple):
    """What one node reads of tables.

    Attributes:
      rows: Rows.
      bytes: Their bytes.
    """

    rows: float
    bytes: float


def rows_read(sizes: TensorSizes, name: str) -> Optional[RowsRead]:
    """What a node of an op in `ROW_READERS` reads; None if not of a table.

    Raises:
      SizeUnknown: How many rows it reads is not known.
    """
    op = sizes.view.op(name)
    if op in GROUP_GATHERS:
        return _sum(
            RowsRead(sent.rows_read, sent.rows_read * sent.width * sent.element)
            for sent in sent_by(sizes, sizes.view.inputs(name)[-1])
        )
    if op in GROUP_LOOKUPS:
        return _sum(_of_group(sizes, name))
    return _of_one(sizes, name)


def _of_group(sizes: TensorSizes, name: str) -> Iterator[RowsRead]:
    inputs = group_inputs(sizes.view, name)
    tables = sizes.view.nodes[name].attr["lookup_tables"].list.i
    shards = looked_up_shards(sizes.view, name)
    for place, table in enumerate(named_lookups(sizes.view, name)):
        rows = sizes.elements(inputs[place])
        sizes_of_rows = [shard.row_bytes for shard in shards[tables[place]] if shard.row_bytes]
        if sizes_of_rows:
            yield RowsRead(rows, rows * sizes_of_rows[0])
            continue
        width, element = width_of(sizes, name, table, tables[place])
        yield RowsRead(rows, rows * width * element)


def _of_one(sizes: TensorSizes, name: str) -> Optional[RowsRead]:
    inputs = sizes.view.inputs(name)
    if len(inputs) < 2:
        return None
    read = find_table(sizes.view, inputs[0])
    row = None if read is None else _row_bytes(sizes.view, read.variable)
    if row is None:
        return None
    rows = sizes.elements(inputs[1])
    return RowsRead(rows, rows * row)


def _row_bytes(view: GraphView, variable: str) -> Optional[int]:
    size = variable_size(view, variable)
    if size is None or size.width is None:
        return None
    return size.width * size.element


def _sum(found: Iterator[RowsRead]) -> RowsRead:
    rows, size = 0.0, 0.0
    for one in found:
        rows, size = rows + one.rows, size + one.bytes
    return RowsRead(rows, size)


def table_of(view: GraphView, gather: str) -> Optional[str]:
    """The variable that a gather reads."""
    inputs: Tuple[TensorRef, ...] = view.inputs(gather) if gather in view else ()
    read = find_read(view, inputs[0]) if inputs else None
    return None if read is None else read.variable
