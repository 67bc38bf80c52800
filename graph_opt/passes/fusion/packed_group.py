"""The ops of a group whose tables are on parameter servers: one tensor a server and direction.

worker   GroupEmbeddingPrepare ──request──> GroupEmbeddingGather      server
         GroupEmbeddingCombine <───rows───
         GroupEmbeddingPackGradients ─update─> GroupEmbeddingApplyPacked
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.group_nodes import (
    Columns,
    GroupNodes,
    GroupOp,
    number_input,
    update_attributes,
    update_slots,
)
from graph_opt.passes.fusion.groups import LookupGroup, UpdateGroup
from graph_opt.passes.fusion.local_group import output_name
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.tasks import task_of


class _Server(NamedTuple):
    """One parameter server of a group: its device, and which of the group's shards it has."""

    device: str
    shards: Tuple[int, ...]


def write_lookup(nodes: GroupNodes, group: LookupGroup, columns: Optional[Columns]) -> str:
    """Writes the lookup of a group and returns the name of the node with the results."""
    table = group.members[0].candidate.lookup.tables[0]
    worker = nodes.writer("lookup", group.place.worker)
    shared = nodes.group_op(group.members, group.place.worker, columns)
    servers = _servers(shared)
    placement = _placement(shared, servers)
    prepare = worker.node(
        "prepare",
        "GroupEmbeddingPrepare",
        shared.inputs,
        table_widths=values.integers(shared.table_widths),
        shard_rows=values.integers(shared.shard_rows),
        _output_shapes=values.shapes([(None,)] * (len(servers) + 1) + [(len(shared.shards),)]),
        **placement,
        **shared.attributes,
    )
    rows = [
        _gather(nodes, shared, server, output_name(prepare.name, number), table.is_resource)
        for number, server in enumerate(servers)
    ]
    combine = worker.node(
        "pooled",
        "GroupEmbeddingCombine",
        rows
        + [output_name(prepare.name, len(servers) + place) for place in (0, 1)]
        + shared.inputs,
        T=tf.AttrValue(type=table.dtype),
        pooled_dtypes=nodes.pooled_dtypes(group.members, columns),
        table_widths=values.integers(shared.table_widths),
        _output_shapes=nodes.pooled_shapes(group.members, columns),
        **placement,
        **shared.attributes,
    )
    return str(combine.name)


def write_update(
    nodes: GroupNodes, group: UpdateGroup, controls: Sequence[str], columns: Optional[Columns]
) -> Dict[str, str]:
    """Writes the update of a group of tables.

    Returns:
      For each shard's variable the node that updates it.
    """
    worker = nodes.writer("update", group.place.worker)
    shared = nodes.group_op(group.members, group.place.worker, columns, of_gradients=True)
    servers = _servers(shared)
    gradients = nodes.pooled_gradients(group.members, group.place.worker, columns)
    pack = worker.node(
        "pack",
        "GroupEmbeddingPackGradients",
        shared.inputs + gradients,
        num_gradients=values.integer(len(gradients)),
        shard_rows=values.integers(shared.shard_rows),
        _output_shapes=values.shapes([(None,)] * len(servers)),
        **_placement(shared, servers),
        **shared.attributes,
    )
    made: Dict[str, str] = {}
    for number, server in enumerate(servers):
        update = output_name(pack.name, number)
        node = _apply(nodes, shared, server, update, group, controls)
        made.update((shared.shards[shard], node) for shard in server.shards)
    return made


def _gather(
    nodes: GroupNodes, shared: GroupOp, server: _Server, request: str, is_resource: bool
) -> str:
    shards = [shared.shards[shard] for shard in server.shards]
    node = nodes.writer("gather", server.device).node(
        "rows",
        "ResourceGroupEmbeddingGather" if is_resource else "GroupEmbeddingGather",
        [*shards, request],
        T=tf.AttrValue(type=shared.shard_dtypes[0]),
        _output_shapes=values.shapes([(None,)]),
        **_of_shards(shards, is_resource),
    )
    return str(node.name)


def _apply(
    nodes: GroupNodes,
    shared: GroupOp,
    server: _Server,
    update: str,
    group: UpdateGroup,
    controls: Sequence[str],
) -> str:
    writer: NodeWriter = nodes.writer("apply", server.device)
    shards = [shared.shards[shard] for shard in server.shards]
    first = group.updates[shards[0]]
    slots = update_slots(shards, group.updates)
    numbers = [
        number_input(writer, "hyperparameter_{}".format(number), value)
        for number, value in enumerate(first.hyperparameters)
    ]
    is_resource = group.members[0].candidate.lookup.tables[0].is_resource
    kind = "ResourceGroupEmbeddingApplyPacked" if is_resource else "GroupEmbeddingApplyPacked"
    node = writer.node(
        "rows",
        kind,
        [*shards, *slots, *numbers, update, *("^" + source for source in controls)],
        **_of_shards(shards, is_resource),
        **update_attributes(first, len(slots), len(numbers)),
    )
    return str(node.name)


def _servers(shared: GroupOp) -> List[_Server]:
    """The servers in the order of their first shards."""
    found: Dict[Optional[str], List[int]] = {}
    for shard, device in enumerate(shared.shard_devices):
        found.setdefault(task_of(device), []).append(shard)
    return [_Server(shared.shard_devices[shards[0]], tuple(shards)) for shards in found.values()]


def _placement(shared: GroupOp, servers: Sequence[_Server]) -> Dict[str, Any]:
    numbers = {shard: number for number, server in enumerate(servers) for shard in server.shards}
    return dict(
        shard_servers=values.integers([numbers[shard] for shard in range(len(shared.shards))]),
        num_servers=values.integer(len(servers)),
    )


def _of_shards(shards: Sequence[str], is_resource: bool) -> Dict[str, Any]:
    attributes = dict(num_shards=values.integer(len(shards)), table_names=values.texts(shards))
    if not is_resource:
        attributes["_class"] = values.colocated(shards)
    return attributes
