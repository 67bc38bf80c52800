"""Writes the op that sums the gradients of many lookups by row."""

from __future__ import annotations

from typing import List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import Columns, GroupNodes, GroupOp
from graph_opt.passes.fusion.group_tables import row_key
from graph_opt.passes.fusion.key_gradients import (
    PlacesOfKeys,
    write_keys,
    write_places,
)
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.gradients.rows import Slices

_INT32 = tf.int32.as_datatype_enum


def write_rows_of_gradient(
    view: GraphView,
    nodes: GroupNodes,
    members: Sequence[Member],
    device: str,
    columns: Optional[Columns],
    indices: Sequence[TensorRef],
    shared_tables: bool = False,
) -> List[Slices]:
    """Writes the op that sums the gradients of some lookups by row.

    Args:
      view: The graph.
      nodes: Collects the nodes.
      members: The lookups, each with its gradient.
      device: Device of the op.
      columns: The columns with their gradient, if all results are one tensor; else None.
      indices: Indices whose dtypes those of the results must have.
      shared_tables: Whether the gradients of lookups of one table are added, too.

    Returns:
      The IndexedSlices of each table's shards in turn, where tables are shared; else of each
      lookup's. Each row is there once.
    """
    places = {
        row_key(member.candidate): write_places(nodes, member.candidate, device)
        for member in members
        if member.candidate.is_dynamic
    }
    shared = nodes.group_op(
        members,
        device,
        columns,
        shared_tables,
        of_gradients=True,
        places={key: one.ids for key, one in places.items()},
    )
    of_shards: List[Optional[PlacesOfKeys]] = [None] * len(shared.shards)
    if places:  # Keys are numbered for each lookup, so no two of them share a table.
        of_shards = [places.get(row_key(m.candidate)) for m in members for _ in m.candidate.tables]
    writer = nodes.writer("gradient", device)
    call = writer.call(
        "rows",
        "GroupEmbeddingGrad",
        table_rows=_table_rows(writer, shared, of_shards),
        gradients=nodes.pooled_gradients(members, device, columns),
        table_dtypes=shared.shard_dtypes,
        pooled_dtypes=nodes.pooled_dtypes(members, columns),
        **shared.inputs,
        **shared.attributes,
    )
    made = []
    of_rows = zip(indices, of_shards, call.outputs("indices"), call.outputs("values"))
    for shard, (wanted, of_keys, found, rows) in enumerate(of_rows):
        if of_keys is not None:
            found = write_keys(writer, of_keys, found, shard)
        elif view.dtype(wanted) == _INT32:
            found = _as_int32(writer, found, shard)
        made.append(Slices(values=rows.ref, indices=found.ref))
    return made


def _table_rows(
    writer: NodeWriter, shared: GroupOp, of_shards: Sequence[Optional[PlacesOfKeys]]
) -> Tensor:
    """The number of rows of each shard: of static tables, or of places of keys."""
    if all(keys is None for keys in of_shards):
        return writer.constant("table_rows", np.array(shared.shard_rows, np.int64))
    rows = [
        writer.constant("table_rows_{}".format(number), np.int64(rows))
        if keys is None
        else keys.size
        for number, (rows, keys) in enumerate(zip(shared.shard_rows, of_shards))
    ]
    return writer.call("table_rows", "Pack", values=rows).result


def _as_int32(writer: NodeWriter, indices: Tensor, number: int) -> Tensor:
    """Indices with the dtype that the stock gradient had."""
    return writer.call("indices_{}".format(number), "Cast", x=indices, DstT=_INT32).result
