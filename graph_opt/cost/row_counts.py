"""What batches and tables have: rows, ids, and different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_opt.cost.assumptions import BATCH, DISTINCT_SHARE, IDS_PER_ROW
from graph_opt.cost.unknown import SizeUnknown
from graph_opt.graph.view import TensorRef

if TYPE_CHECKING:
    from graph_opt.cost.tensor_sizes import TensorSizes


def batch(sizes: TensorSizes, tensor: TensorRef) -> float:
    """The number of rows in a batch."""
    if sizes.assumptions.batch is None:
        raise SizeUnknown(str(tensor), "the number of rows in a batch is not known", BATCH)
    return float(sizes.assumptions.batch)


def number_of_ids(sizes: TensorSizes, tensor: TensorRef) -> float:
    """The number of ids in a batch, for a tensor that has an element for each."""
    tables = sizes.ids.tables(tensor)
    told = sizes.assumptions.ids_of((*tables, str(tensor)))
    if told is None:
        name = tables[0] if tables else str(tensor)
        raise SizeUnknown(
            name, "the number of ids in a row is not known", "{} '{}=N'".format(IDS_PER_ROW, name)
        )
    return batch(sizes, tensor) * told


def different_ids(sizes: TensorSizes, table: str, count: float) -> float:
    """How many different rows of a table so many ids name: at most as many as it has."""
    share = sizes.assumptions.share_of(table)
    if share is None:
        sizes.note(
            "all ids of a batch are different, so figures that depend on rows are upper bounds "
            "({} or --sample gives the share)".format(DISTINCT_SHARE)
        )
        share = 1.0
    different = count * min(share, 1.0)
    shape = sizes.view.attribute(table, "shape") if table in sizes.view else None
    if shape is not None and shape.shape.dim and shape.shape.dim[0].size > 0:
        return min(different, float(shape.shape.dim[0].size))
    return different
