"""The ops of a group whose tables stand where they are read: lookup, gradient and update."""

from __future__ import annotations

from typing import Dict, Optional, Sequence

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import (
    Columns,
    GroupNodes,
    number_input,
    update_attributes,
    update_slots,
)
from graph_opt.passes.fusion.groups import LookupGroup, UpdateGroup
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.rules.gradients.rows import Slices

_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum


def write_lookup(nodes: GroupNodes, group: LookupGroup, columns: Optional[Columns]) -> str:
    """Writes the lookup of a group and returns the node's name."""
    first = group.members[0].candidate
    shared = nodes.group_op(group.members, group.place.tables, columns)
    is_resource = first.lookup.tables[0].is_resource
    writer = nodes.writer("lookup", group.place.tables)
    attributes = dict(shared.attributes)
    if not is_resource:
        attributes["table_dtypes"] = values.types(shared.shard_dtypes)
        attributes["_class"] = values.colocated(shared.shards)
    node = writer.node(
        "pooled",
        "ResourceGroupEmbeddingLookup" if is_resource else "GroupEmbeddingLookup",
        shared.shards + shared.inputs,
        pooled_dtypes=nodes.pooled_dtypes(group.members, columns),
        _output_shapes=nodes.pooled_shapes(group.members, columns),
        **attributes,
    )
    return str(node.name)


def write_gradient(
    view: GraphView,
    nodes: GroupNodes,
    members: Sequence[Member],
    device: str,
    columns: Optional[Columns],
) -> Dict[Slices, Slices]:
    """Writes the gradient of some lookups, each with IndexedSlices of its own.

    Returns:
      For each lookup's slices what stands for them.
    """
    shared = nodes.group_op(members, device, columns, shared_tables=False, of_gradients=True)
    writer = nodes.writer("gradient", device)
    node = writer.node(
        "rows",
        "GroupEmbeddingGrad",
        shared.inputs
        + [writer.constant("table_rows", np.array(shared.shard_rows, np.int64))]
        + nodes.pooled_gradients(members, device, columns),
        table_dtypes=values.types(shared.shard_dtypes),
        pooled_dtypes=nodes.pooled_dtypes(members, columns),
        _output_shapes=values.shapes(
            [(None,)] * len(shared.shards) + [(None, width) for width in shared.shard_widths]
        ),
        **shared.attributes,
    )
    made: Dict[Slices, Slices] = {}
    shard = 0
    for member in members:
        assert member.gradient is not None
        for slices in member.gradient.slices:
            indices = output_name(node.name, shard)
            dtype = view.dtype(slices.indices)
            if dtype == _INT32:
                indices = _as_int32(writer, indices, shard)
            rows = output_name(node.name, len(shared.shards) + shard)
            made[slices] = Slices(values=TensorRef.parse(rows), indices=TensorRef.parse(indices))
            shard += 1
    return made


def write_update(
    nodes: GroupNodes, group: UpdateGroup, controls: Sequence[str], columns: Optional[Columns]
) -> Dict[str, str]:
    """Writes the update of a group of tables.

    Returns:
      For each shard's variable the node that updates it.
    """
    shared = nodes.group_op(group.members, group.place.tables, columns, of_gradients=True)
    first = group.updates[shared.shards[0]]
    is_resource = group.members[0].candidate.lookup.tables[0].is_resource
    writer = nodes.writer("update", group.place.tables)
    slots = update_slots(shared.shards, group.updates)
    numbers = [
        number_input(writer, "hyperparameter_{}".format(number), value)
        for number, value in enumerate(first.hyperparameters)
    ]
    gradients = nodes.pooled_gradients(group.members, group.place.tables, columns)
    attributes = dict(shared.attributes)
    if not is_resource:
        attributes["_class"] = values.colocated(shared.shards)
    node = writer.node(
        "apply",
        "ResourceGroupEmbeddingApply" if is_resource else "GroupEmbeddingApply",
        [*shared.shards, *slots, *numbers, *shared.inputs, *gradients]
        + ["^" + source for source in controls],
        num_gradients=values.integer(len(gradients)),
        **attributes,
        **update_attributes(first, len(slots), len(numbers)),
    )
    return {shard: str(node.name) for shard in shared.shards}


def _as_int32(writer: NodeWriter, indices: str, number: int) -> str:
    """Indices in the type that the stock gradient had."""
    cast = writer.node(
        "indices_{}".format(number),
        "Cast",
        [indices],
        SrcT=tf.AttrValue(type=_INT64),
        DstT=tf.AttrValue(type=_INT32),
        _output_shapes=values.shapes([(None,)]),
    )
    return str(cast.name)


def output_name(node: str, index: int) -> str:
    """How a NodeDef spells one output of a node."""
    return node if index == 0 else "{}:{}".format(node, index)
