"""The tables that a fused lookup reads, as served graphs have them: variables, files, constants."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import dtype_size
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.static_shapes import count_elements, static_shape
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.frozen_tables import CONSTANT
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
      shape: Its shape as it is stored, with None for a size that is not known.
    """

    name: str
    source: str
    dtype: int
    shape: Tuple[Optional[int], ...]

    @property
    def rows(self) -> Optional[int]:
        """How many rows it has; None if not known."""
        return count_elements(self.shape[:1])

    @property
    def row_bytes(self) -> Optional[int]:
        """What a row takes, with its scale if it has one; None if not known."""
        elements, size = count_elements(self.shape[1:]), dtype_size(self.dtype)
        return None if elements is None or size is None else elements * size

    @property
    def width(self) -> Optional[int]:
        """Elements of a row; None if not known."""
        stored = count_elements(self.shape[1:])
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
        return LookedUpShard(name, FILE, dtype, static_shape(shape) or ())
    read = find_table(view, tensor)
    if read is None:
        return None
    try:
        table = describe(view, read.variable)
    except Refusal:
        return None
    if table.shape is None:
        return None
    kind = GRAPH if table.op == CONSTANT else VARIABLE
    return LookedUpShard(table.name, kind, table.dtype, table.shape)
