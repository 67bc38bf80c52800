"""Writes what finds the rows of dynamic tables, whose numbers the ops of a group take as ids.

    keys ──> GroupDynamicRows(tables) ──> rows ──> lookup, update

Whoever has a tensor of such numbers keeps the table from moving or evicting these rows. So the
update of a batch that was prefetched writes to the rows that were read for it.
"""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.group_nodes import GroupNodes, output_name
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


def write_insert(writer: NodeWriter, insert: Optional[Insert]) -> str:
    """The input of an op that says whether keys without a row get one."""
    if isinstance(insert, TensorRef):
        return insert.input_name
    return writer.constant("insert", np.bool_(bool(insert)))


def _write(nodes: GroupNodes, candidates: Sequence[Candidate], device: str, counted: bool) -> None:
    numbers, tables = tables_of(candidates, shared_tables=True)
    writer = nodes.writer("rows", device)
    keys = [_keys(nodes, writer, candidate) for candidate in candidates]
    node = writer.node(
        "of_keys",
        DYNAMIC_ROWS,
        [table.name for lookup in tables for table in lookup.tables]
        + [text for text, _ in keys]
        + [write_insert(writer, candidates[0].inputs.insert if counted else False)]
        + ([] if counted else _waits(candidates)),
        N=values.integer(sum(len(lookup.tables) for lookup in tables)),
        num_lookups=values.integer(len(candidates)),
        id_dtypes=values.types([dtype for _, dtype in keys]),
        lookup_tables=values.integers(numbers),
        table_names=values.texts([table_name(lookup) for lookup in tables]),
        table_shards=values.integers([len(lookup.tables) for lookup in tables]),
        partition_strategies=values.texts([by_key(lookup) for lookup in tables]),
        skip_negative=tf.AttrValue(b=candidates[0].inputs.safe),
    )
    for number, candidate in enumerate(candidates):
        nodes.rows[row_key(candidate)] = output_name(node.name, number)


def _keys(nodes: GroupNodes, writer: NodeWriter, candidate: Candidate) -> Tuple[str, int]:
    """Keys and their DataType number: -1 in place of those that a safe lookup drops by weight."""
    keys, dtype = nodes.ids(candidate, writer.device)
    inputs = candidate.inputs
    if not inputs.safe or inputs.weights is None or inputs.combiner == "sum":
        return keys, dtype
    number = len(nodes.nodes)
    of_keys = tf.AttrValue(type=dtype)
    zero = writer.constant("zero_{}".format(number), np.float32(0))
    kept = writer.node(
        "kept_{}".format(number),
        "Greater",
        [inputs.weights.input_name, zero],
        T=tf.AttrValue(type=tf.float32.as_datatype_enum),
    )
    none = writer.constant("none_{}".format(number), tf.as_dtype(dtype).as_numpy_dtype(-1))
    name = "keys_{}".format(number)
    return str(writer.node(name, "SelectV2", [kept.name, keys, none], T=of_keys).name), dtype


def _waits(candidates: Sequence[Candidate]) -> List[str]:
    """Keys may be known before a lookup has made their rows; gradients are not."""
    return ["^" + name for name in dict.fromkeys(c.lookup.output.node for c in candidates)]
