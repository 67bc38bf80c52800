"""By which ids rows were gathered: the way from `embedding_lookup`'s result back to its `ids`.

    whole         ids -> gather [-> Identity ..]
    partitioned   ids -> Reshape -> flat
                  mod   shard = flat % P                row = flat // P
                  div   shard = max(flat // (Q + 1), (flat - E) // Q)      Q = V // P, E = V % P
                        row = shard < E ? flat % (Q + 1) : (flat - E) % Q
                  gather k of DynamicPartition(row, shard):k
                  ParallelDynamicStitch(DynamicPartition(range, shard), gathers)
                  -> Reshape to ids.shape + [D]

P shards have V rows together; D is the table's width.
"""

from __future__ import annotations

from typing import Sequence, Tuple

from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.structure import Structure
from graph_opt.rules.table import VARIABLES

ROW_GATHERS = ("Gather", "GatherV2", "ResourceGather")
_PASS_ON = ("Identity", "EnsureShape")
_STITCHES = ("ParallelDynamicStitch", "DynamicStitch")


def ids_of_rows(structure: Structure, lookup: Lookup, rows: TensorRef) -> TensorRef:
    """The ids by which `rows`, of shape ids.shape + [D], were gathered from the lookup's table.

    Raises:
      Refusal: lookup_differs.
    """
    if lookup.partition_strategy is None:
        return _gathered_by(structure, lookup.gathers[0], rows)
    stitched, shape = structure.inputs(rows, "Reshape")
    parts = structure.inputs(stitched, *_STITCHES)
    count = len(lookup.tables)
    at = "{} positions and {} gathers".format(count, count)
    structure.require(len(parts) == 2 * count, stitched, at, "{} inputs".format(len(parts)))
    positions, shards = _partitioned(structure, parts[:count])
    pairs = zip(lookup.gathers, parts[count:])
    own_rows, own_shards = _partitioned(
        structure, [_gathered_by(structure, gather, part) for gather, part in pairs]
    )
    structure.require_same(own_shards, shards, parts[0].node)
    flat = _require_split(structure, lookup, own_rows, own_shards)
    _require_all_positions(structure, positions, flat)
    ids, dims = structure.inputs(flat, "Reshape")
    structure.require_constant(dims, [-1])
    _require_shape(structure, lookup, shape, ids)
    return ids


def note_table_read(structure: Structure, reader: str) -> None:
    """Counts the nodes by which `reader` reads its table to the pattern."""
    tensor = structure.view.inputs(reader)[0]
    while structure.view.op(tensor.node) not in VARIABLES:
        structure.seen[tensor.node] = None
        tensor = structure.view.inputs(tensor.node)[0]


def _gathered_by(structure: Structure, gather: str, rows: TensorRef) -> TensorRef:
    found = structure.through(rows, *_PASS_ON)
    structure.require_same(found, TensorRef(gather, 0), rows.node)
    note_table_read(structure, gather)
    return structure.inputs(found, *ROW_GATHERS)[1]


def _partitioned(structure: Structure, parts: Sequence[TensorRef]) -> Tuple[TensorRef, TensorRef]:
    """(data, shard numbers) of the DynamicPartition whose outputs these are, all and in order."""
    node = parts[0].node
    data, shards = structure.inputs(TensorRef(node, 0), "DynamicPartition")
    structure.require_attributes(node, num_partitions=len(parts))
    for number, part in enumerate(parts):
        structure.require_same(part, TensorRef(node, number), node)
    return data, shards


def _require_all_positions(structure: Structure, positions: TensorRef, flat: TensorRef) -> None:
    first, end, step = structure.inputs(positions, "Range")
    structure.require_constant(first, 0)
    structure.require_constant(step, 1)
    if structure.view.constant(end) is None:  # a constant one must fit, or partitioning fails
        structure.require_same(structure.inputs(end, "Size")[0], flat, end.node)


def _require_split(
    structure: Structure, lookup: Lookup, row: TensorRef, shard: TensorRef
) -> TensorRef:
    """The flat ids, if rows and shards are computed from them as the strategy says."""
    if structure.is_made_by(shard, "Cast"):
        shard = structure.inputs(shard, "Cast")[0]
    count = len(lookup.tables)
    if lookup.partition_strategy == "mod":
        flat = structure.operation(shard, "FloorMod", count)
        structure.require_same(structure.operation(row, "FloorDiv", count), flat, row.node)
        return flat
    piece, longer = divmod(sum(_rows(table) for table in lookup.tables), count)
    in_longer, in_others = structure.inputs(shard, "Maximum")
    flat = structure.operation(in_longer, "FloorDiv", piece + 1)
    _require_after(structure, structure.operation(in_others, "FloorDiv", piece), flat, longer)
    is_longer, of_longer, of_others = structure.inputs(row, "Select", "SelectV2")
    structure.require_same(structure.operation(is_longer, "Less", longer), shard, is_longer.node)
    of_flat = structure.operation(of_longer, "FloorMod", piece + 1)
    structure.require_same(of_flat, flat, of_longer.node)
    _require_after(structure, structure.operation(of_others, "FloorMod", piece), flat, longer)
    return flat


def _require_after(structure: Structure, ids: TensorRef, flat: TensorRef, longer: int) -> None:
    structure.require_same(structure.operation(ids, "Sub", longer), flat, ids.node)


def _require_shape(structure: Structure, lookup: Lookup, shape: TensorRef, ids: TensorRef) -> None:
    """Refuses unless `shape` is ids.shape + [D]."""
    outer, width, axis = structure.inputs(shape, "ConcatV2")
    structure.require_constant(axis, 0)
    structure.require_constant(width, list((lookup.tables[0].shape or ())[1:]))
    if structure.view.constant(outer) is not None:
        structure.require_constant(outer, list(structure.view.shape(ids) or [None]))
    else:
        structure.require_same(structure.inputs(outer, "Shape")[0], ids, outer.node)


def _rows(table: Table) -> int:
    return (table.shape[0] or 0) if table.shape else 0
