"""Tables on parameter servers: one tensor per server and direction.

worker   GroupEmbeddingPrepare ──request──> GroupEmbeddingGather      server
         GroupEmbeddingCombine <───rows───
         GroupEmbeddingPackGradients ─update─> GroupEmbeddingApplyPacked

What travels for dynamic tables are keys, whose rows the server finds.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.deferred import ShardInputs, needs_of
from graph_opt.passes.fusion.dynamic_rows import write_insert
from graph_opt.passes.fusion.group_nodes import (
    Columns,
    GroupNodes,
    GroupOp,
    output_name,
)
from graph_opt.passes.fusion.placement import Placement
from graph_opt.passes.fusion.update_nodes import update_node
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.tasks import task_of
from graph_opt.rules.optimizers.sparse_update import SparseUpdate

# What must be the same for the bags of a lookup to be those of an update.
_OF_LOOKUPS = (
    "num_lookups",
    "id_dtypes",
    "lookup_tables",
    "table_names",
    "table_shards",
    "shard_servers",
    "combiners",
    "layouts",
    "weighted",
    "default_ids",
    "partition_strategies",
    "safe",
)


class _Server(NamedTuple):
    """One parameter server of a group: its device, and which of the group's shards it has."""

    device: str
    shards: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class ParameterServers(Placement):
    """All tables of a group are on tasks other than their reader's.

    Attributes:
      servers: Those tasks, in the order of the tables.
    """

    servers: Tuple[str, ...]
    lookup_ops = ("GroupEmbeddingCombine",)
    update_ops = (
        "GroupEmbeddingPackGradients",
        "GroupEmbeddingApplyPacked",
        "ResourceGroupEmbeddingApplyPacked",
    )

    @classmethod
    def of(cls, view: GraphView, candidate: Candidate) -> Optional[ParameterServers]:
        """See `Placement`."""
        worker = view.device(candidate.lookup.output.node)
        home = task_of(worker)
        tasks = dict.fromkeys(task_of(table.device) for table in candidate.lookup.tables)
        servers = tuple(task for task in tasks if task is not None)
        if home is None or home in servers or len(servers) < len(tasks):
            return None
        return cls(worker, servers)

    def group_key(self, table_dtype: int) -> Hashable:
        """One worker and one dtype, since rows of all tables form one tensor; any servers."""
        return ParameterServers, self.worker, table_dtype

    @property
    def tasks_needing_ops(self) -> Tuple[str, ...]:
        """The servers, which gather and update."""
        return self.servers

    @property
    def takes_own_powers(self) -> bool:
        """See `Placement`."""
        return True

    def joined_with(self, others: Sequence[ParameterServers]) -> ParameterServers:
        """See `Placement`."""
        servers = dict.fromkeys(server for each in (self, *others) for server in each.servers)
        return dataclasses.replace(self, servers=tuple(servers))

    def write_lookup(
        self, nodes: GroupNodes, members: Sequence[Member], columns: Optional[Columns]
    ) -> str:
        """See `Placement`."""
        table = members[0].candidate.lookup.tables[0]
        worker = nodes.writer("lookup", self.worker)
        shared = nodes.group_op(members, self.worker, columns)
        servers = _servers(shared)
        of_servers = _server_attributes(shared, servers)
        inserts = _inserts(worker, members)
        prepare = worker.node(
            "prepare",
            "GroupEmbeddingPrepare",
            shared.inputs + inserts,
            num_inserts=values.integer(len(inserts)),
            table_widths=values.integers(shared.table_widths),
            shard_rows=values.integers(shared.shard_rows),
            _output_shapes=values.shapes([(None,)] * (len(servers) + 1) + [(len(shared.shards),)]),
            **of_servers,
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
            pooled_dtypes=nodes.pooled_dtypes(members, columns),
            table_widths=values.integers(shared.table_widths),
            _output_shapes=nodes.pooled_shapes(members, columns),
            **of_servers,
            **shared.attributes,
        )
        return str(combine.name)

    def write_to_date(self, nodes: GroupNodes, members: Sequence[Member], lookup: str) -> None:
        """See `Placement`."""
        combine = nodes.named(lookup)
        for name in combine.input[: combine.attr["num_servers"].i]:
            _bring_to_date(nodes, nodes.named(name))

    def write_update(
        self,
        nodes: GroupNodes,
        members: Sequence[Member],
        updates: Dict[str, SparseUpdate],
        controls: Sequence[str],
        columns: Optional[Columns],
    ) -> Dict[str, str]:
        """See `Placement`."""
        worker = nodes.writer("update", self.worker)
        shared = nodes.group_op(members, self.worker, columns, of_gradients=True)
        servers = _servers(shared)
        gradients = nodes.pooled_gradients(members, self.worker, columns)
        waits = [wait for member in members for wait in member.candidate.waits_for_rows]
        requests = _requests(nodes, shared, servers, self.worker)
        pack = worker.node(
            "pack",
            "GroupEmbeddingPackGradients",
            [*shared.inputs, *gradients, *requests, *waits],
            num_gradients=values.integer(len(gradients)),
            num_requests=values.integer(len(requests)),
            shard_rows=values.integers(shared.shard_rows),
            num_under_way=values.integer(int(nodes.answers)),
            _output_shapes=values.shapes([(None,)] * len(servers) + [()] * nodes.answers),
            **_server_attributes(shared, servers),
            **shared.attributes,
        )
        is_resource = members[0].candidate.lookup.tables[0].is_resource
        made: Dict[str, str] = {}
        for number, server in enumerate(servers):
            update = output_name(pack.name, number)
            node = _apply(nodes, shared, server, update, updates, is_resource, controls)
            made.update((shared.shards[shard], node) for shard in server.shards)
        return made


def _inserts(writer: NodeWriter, members: Sequence[Member]) -> List[str]:
    """For each dynamic table, whether keys without a row get one; empty if they do.

    It is the same for all lookups of a group.
    """
    dynamic = [member.candidate for member in members if member.candidate.is_dynamic]
    if not dynamic or dynamic[0].inputs.insert in (None, True):
        return []
    insert = write_insert(writer, dynamic[0].inputs.insert)
    return [insert] * len({candidate.tables for candidate in dynamic})


def _requests(
    nodes: GroupNodes, shared: GroupOp, servers: Sequence[_Server], worker: str
) -> List[str]:
    """What a lookup of the same ids asked the servers for, if one is written; else nothing."""
    wanted = {**shared.attributes, **_server_attributes(shared, servers)}
    for node in nodes.nodes:
        if node.op != "GroupEmbeddingPrepare" or node.device != worker:
            continue
        if list(node.input) != shared.inputs:  # of dynamic tables there may be more
            continue
        if all(node.attr[name] == value for name, value in wanted.items() if name in _OF_LOOKUPS):
            return [output_name(node.name, number) for number in range(len(servers))]
    return []


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


def _bring_to_date(nodes: GroupNodes, gather: Any) -> None:
    """Makes a server's gather wait until the rows are current that it is asked for."""
    shards, request = list(gather.input[:-1]), gather.input[-1]
    for need in needs_of(shards, nodes.deferred):
        late = ShardInputs(shards, nodes.deferred, need)
        to_date = nodes.writer("to_date", gather.device).node(
            "rows",
            late.op("GroupEmbeddingBringPackedToDate"),
            [*late.inputs, request],
            num_shards=values.integer(len(shards)),
            table_names=values.texts(shards),
            **late.attributes_of_rows,
        )
        gather.input.append("^" + to_date.name)


def _apply(
    nodes: GroupNodes,
    shared: GroupOp,
    server: _Server,
    update: str,
    updates: Dict[str, SparseUpdate],
    is_resource: bool,
    controls: Sequence[str],
) -> str:
    writer: NodeWriter = nodes.writer("apply", server.device)
    shards = [shared.shards[shard] for shard in server.shards]
    optimizer = update_node(writer, shards, updates, nodes.deferred, with_own=True)
    kind = "ResourceGroupEmbeddingApplyPacked" if is_resource else "GroupEmbeddingApplyPacked"
    node = writer.node(
        "rows",
        kind,
        [*shards, *optimizer.inputs, update, *("^" + source for source in controls)],
        num_answers=values.integer(int(nodes.answers)),
        **_of_shards(shards, is_resource),
        **optimizer.attributes,
    )
    return str(node.name)


def _servers(shared: GroupOp) -> List[_Server]:
    """The servers in the order of their first shards."""
    found: Dict[Optional[str], List[int]] = {}
    for shard, device in enumerate(shared.shard_devices):
        found.setdefault(task_of(device), []).append(shard)
    return [_Server(shared.shard_devices[shards[0]], tuple(shards)) for shards in found.values()]


def _server_attributes(shared: GroupOp, servers: Sequence[_Server]) -> Dict[str, Any]:
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
