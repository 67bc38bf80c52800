"""Writes what finds the rows of dynamic tables, whose numbers the ops of a group take as ids.

    keys ──> GroupDynamicRows(tables) ──> rows ──> lookup, update

Whoever has a tensor of such numbers keeps the table from moving or evicting these rows. So the
update of a batch that was prefetched writes to the rows that were read for it.

An update that takes IndexedSlices finds the rows of their keys anew, once their values are known:
by then the lookups have made these rows. For a bag without ids no row is made, where TensorFlow
looks key 0 up and discards what it has read.
"""

from __future__ import annotations

from typing import List, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import TensorRef
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.fusion.group_tables import by_key, row_key, table_name, tables_of
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.dynamic_lookups import Insert
from graph_opt.rules.op_names import DYNAMIC_ROWS


def write_dynamic_rows(nodes: GroupNodes, members: Sequence[Member], device: str) -> None:
    """Finds the rows of keys of dynamic tables, for the ops of a group that are written next.

    Args:
      nodes: Collects the nodes, and knows the rows from then on.
      members: Lookups, or IndexedSlices that update such tables: these neither make rows nor count
        as occurrences of their keys. Those whose rows are known already, or that are in static
        tables, are passed over.
      device: The device of the tables.
    """
    missing = [
        member.candidate
        for member in members
        if member.candidate.is_dynamic and row_key(member.candidate) not in nodes.rows
    ]
    for counted in (True, False):
        own = [c for c in missing if bool(c.lookup.gathers) == counted]
        if own:
            _write(nodes, own, device, counted)


def write_insert(writer: NodeWriter, insert: Optional[Insert]) -> Tensor:
    """The input of an op that says whether keys without a row get one."""
    if isinstance(insert, TensorRef):
        return Tensor(insert.input_name)
    return writer.constant("insert", np.bool_(bool(insert)))


def _write(nodes: GroupNodes, candidates: Sequence[Candidate], device: str, counted: bool) -> None:
    numbers, tables = tables_of(candidates, shared_tables=True)
    writer = nodes.writer("rows", device)
    keys = [_keys(nodes, writer, candidate) for candidate in candidates]
    found = writer.call(
        "of_keys",
        DYNAMIC_ROWS,
        waits_for=[] if counted else _waits(candidates),
        tables=[TensorRef(table.name, 0) for lookup in tables for table in lookup.tables],
        ids=keys,
        insert=write_insert(writer, candidates[0].inputs.insert if counted else False),
        num_lookups=len(candidates),
        lookup_tables=numbers,
        table_names=[table_name(lookup) for lookup in tables],
        table_shards=[len(lookup.tables) for lookup in tables],
        partition_strategies=[by_key(lookup) for lookup in tables],
        skip_negative=candidates[0].inputs.safe,
    )
    for candidate, rows in zip(candidates, found.outputs("rows")):
        nodes.rows[row_key(candidate)] = rows


def _keys(nodes: GroupNodes, writer: NodeWriter, candidate: Candidate) -> Tensor:
    """Keys: -1 in place of those that a safe lookup drops by weight."""
    keys = nodes.ids(candidate, writer.device)
    inputs = candidate.inputs
    if not inputs.safe or inputs.weights is None or inputs.combiner == "sum":
        return keys
    number = len(nodes.nodes)
    zero = writer.constant("zero_{}".format(number), np.float32(0))
    kept = writer.call("kept_{}".format(number), "Greater", x=inputs.weights, y=zero)
    minus_one = tf.as_dtype(keys.dtype).as_numpy_dtype(-1)
    none = writer.constant("none_{}".format(number), minus_one)
    return writer.call(
        "keys_{}".format(number), "SelectV2", condition=kept.result, t=keys, e=none
    ).result


def _waits(candidates: Sequence[Candidate]) -> List[str]:
    """Keys may be known before a lookup has made their rows; gradients are not."""
    return list(dict.fromkeys(c.lookup.output.node for c in candidates))
