"""The tables that a fused lookup reads, as served graphs have them: variables, files, constants."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_size
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.match.frozen_tables import CONSTANT
from graph_opt.rules.match.table import count_tables, describe, find_table
from graph_opt.rules.op_names import SERVED_TABLES
from graph_opt.table_files.low_precision_names import SCALE_BYTES

VARIABLE = "variable"
FILE = "file"
GRAPH = "graph"


class LookedUpShard(NamedTuple):
    """A table, or a part of one, as a lookup gets it.

    Attributes:
      name: The variable's.
      source: `VARIABLE`; `FILE` if it is mapped; `GRAPH` if it is a constant of a frozen graph.
      dtype: Its DataType number.
      dimensions: Its shape as it is stored; -1 where a size is not known.
    """

    name: str
    source: str
    dtype: int
    dimensions: Tuple[int, ...]

    @property
    def rows(self) -> Optional[int]:
        """How many rows it has; None if not known."""
        return _known(self.dimensions[:1])

    @property
    def row_bytes(self) -> Optional[int]:
        """What a row takes, with its scale if it has one; None if not known."""
        elements, size = _known(self.dimensions[1:]), dtype_size(self.dtype)
        return None if elements is None or size is None else elements * size

    @property
    def width(self) -> Optional[int]:
        """Elements of a row; None if not known."""
        stored = _known(self.dimensions[1:])
        has_scale = self.dtype == tf.int8.as_datatype_enum
        return stored - SCALE_BYTES if has_scale and stored is not None else stored


def looked_up_shards(view: GraphView, lookup: str) -> List[List[LookedUpShard]]:
    """For each table of a fused lookup its parts; none for what is computed.

    Args:
      view: A graph.
      lookup: A node of an op in `GROUP_LOOKUPS`.
    """
    shards = view.attribute(lookup, "table_shards")
    counts = [] if shards is None else list(shards.list.i)
    found = [_shard(view, each) for each in view.inputs(lookup)[: count_tables(view, lookup)]]
    tables = []
    for table, count in enumerate(counts):
        first = sum(counts[:table])
        tables.append([each for each in found[first : first + count] if each is not None])
    return tables


def _shard(view: GraphView, tensor: TensorRef) -> Optional[LookedUpShard]:
    source = view.through_identity(tensor)
    if view.op(source.node) == SERVED_TABLES:
        attributes = view.nodes[source.node].attr
        name = attributes["table_names"].list.s[source.index].decode("utf-8", "replace")
        shape = attributes["table_shapes"].list.shape[source.index]
        dtype = attributes["table_dtypes"].list.type[source.index]
        return LookedUpShard(name, FILE, dtype, _dimensions(shape))
    read = find_table(view, tensor)
    if read is None:
        return None
    if view.op(read.variable) == CONSTANT:
        table = describe(view, read.variable)
        dimensions = tuple(-1 if size is None else size for size in table.shape or ())
        return LookedUpShard(table.name, GRAPH, table.dtype, dimensions)
    shape, dtype = (view.attribute(read.variable, key) for key in ("shape", "dtype"))
    if shape is None or dtype is None or shape.shape.unknown_rank:
        return None
    return LookedUpShard(read.variable, VARIABLE, dtype.type, _dimensions(shape.shape))


def _dimensions(shape: tf.TensorShape) -> Tuple[int, ...]:
    return tuple(dimension.size for dimension in shape.dim)


def _known(dimensions: Sequence[int]) -> Optional[int]:
    product = 1
    for size in dimensions:
        if size < 0:
            return None
        product *= size
    return product
