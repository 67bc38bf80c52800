"""Tables on parameter servers: one tensor per server and direction.

worker   GroupEmbeddingPrepare ──request──> GroupEmbeddingGather      server
         GroupEmbeddingCombine <───rows───
         GroupEmbeddingPackGradients ─update─> GroupEmbeddingApplyPacked

Each row that a batch names is sent once. Where batches hold fewer bags than different rows, bags
travel instead (ops_src/packed/packed_bags.h): the server pools them, and sums their gradients.
Which of the two sends less is measured for each table (server_pooling.h).

What travels for dynamic tables are the different keys of a batch, each once and with how often it
occurred (key_request.h). The server finds their rows, and makes those that are missing. Updates
name keys, too, since rows may have been evicted meanwhile.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Hashable, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.graph.op_call import Call, Tensor
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.deferred import ShardInputs, needs_of
from graph_opt.passes.fusion.dynamic_rows import write_insert
from graph_opt.passes.fusion.group_nodes import (
    Columns,
    GroupNodes,
    GroupOp,
    colocated,
)
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.update_arguments import update_arguments
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.tasks import task_of
from graph_opt.rules.optimizers.sparse_update import SparseUpdate

# Of results and their gradients; the bags of a lookup may be those of an update all the same.
_OF_RESULTS = frozenset(["columns", "columns_width", "filled_ids"])


class _Server(NamedTuple):
    """One parameter server of a group: its device, and which of the group's shards it has."""

    device: str
    shards: Tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class FusedOnServers(FusedKind):
    """All tables of a group are on tasks other than their reader's.

    Attributes:
      servers: Those tasks, in the order of the tables.
    """

    servers: Tuple[str, ...]

    @classmethod
    def of(cls, view: GraphView, candidate: Candidate) -> Optional[FusedOnServers]:
        """See `FusedKind`."""
        worker = view.device(candidate.lookup.output.node)
        home = task_of(worker)
        tasks = dict.fromkeys(task_of(table.device) for table in candidate.lookup.tables)
        servers = tuple(task for task in tasks if task is not None)
        if home is None or home in servers or len(servers) < len(tasks):
            return None
        return cls(worker, servers)

    def group_key(self, table_dtype: int) -> Hashable:
        """One worker and one dtype, since rows of all tables form one tensor; any servers."""
        return FusedOnServers, self.worker, table_dtype

    @property
    def tasks_needing_ops(self) -> Tuple[str, ...]:
        """The servers, which gather and update."""
        return self.servers

    @property
    def takes_own_powers(self) -> bool:
        """See `FusedKind`."""
        return True

    def joined_with(self, others: Sequence[FusedOnServers]) -> FusedOnServers:
        """See `FusedKind`."""
        servers = dict.fromkeys(server for each in (self, *others) for server in each.servers)
        return dataclasses.replace(self, servers=tuple(servers))

    def write_lookup(
        self, nodes: GroupNodes, members: Sequence[Member], columns: Optional[Columns]
    ) -> Call:
        """See `FusedKind`."""
        table = members[0].candidate.lookup.tables[0]
        worker = nodes.writer("lookup", self.worker)
        shared = nodes.group_op(members, self.worker, columns)
        servers = _servers(shared)
        of_servers = _server_attributes(shared, servers)
        inserts = _inserts(worker, members)
        prepare = worker.call(
            "prepare",
            "GroupEmbeddingPrepare",
            insert=inserts,
            table_widths=shared.table_widths,
            shard_rows=shared.shard_rows,
            **shared.inputs,
            **of_servers,
            **shared.attributes,
        )
        requests = prepare.outputs("requests")
        if not inserts:
            nodes.requests[_what_is_asked(shared, of_servers, self.worker)] = requests
        rows = [
            _gather(nodes, shared, server, request, table.is_resource)
            for server, request in zip(servers, requests)
        ]
        return worker.call(
            "pooled",
            "GroupEmbeddingCombine",
            rows=rows,
            inverse=prepare.output("inverse"),
            counts=prepare.output("counts"),
            pooled_dtypes=nodes.pooled_dtypes(members, columns),
            table_widths=shared.table_widths,
            **shared.inputs,
            **of_servers,
            **shared.attributes,
        )

    def write_catch_up(self, nodes: GroupNodes, members: Sequence[Member], lookup: Call) -> None:
        """See `FusedKind`."""
        for name in lookup.node.input[: lookup.node.attr["num_servers"].i]:
            _catch_up(nodes, nodes.named(name))

    def write_update(
        self,
        nodes: GroupNodes,
        members: Sequence[Member],
        updates: Dict[str, SparseUpdate],
        controls: Sequence[str],
        columns: Optional[Columns],
    ) -> Dict[str, str]:
        """See `FusedKind`."""
        worker = nodes.writer("update", self.worker)
        shared = nodes.group_op(members, self.worker, columns, of_gradients=True)
        servers = _servers(shared)
        of_servers = _server_attributes(shared, servers)
        asked = _what_is_asked(shared, of_servers, self.worker)
        pack = worker.call(
            "pack",
            "GroupEmbeddingPackGradients",
            waits_for=[wait for member in members for wait in member.candidate.waits_for_rows],
            gradients=nodes.pooled_gradients(members, self.worker, columns),
            requests=nodes.requests.get(asked, []),
            shard_rows=shared.shard_rows,
            num_under_way=int(nodes.answers),
            **shared.inputs,
            **of_servers,
            **shared.attributes,
        )
        is_resource = members[0].candidate.lookup.tables[0].is_resource
        made: Dict[str, str] = {}
        for server, update in zip(servers, pack.outputs("updates")):
            node = _apply(nodes, shared, server, update, updates, is_resource, controls)
            made.update((shared.shards[shard], node) for shard in server.shards)
        return made


def _inserts(writer: NodeWriter, members: Sequence[Member]) -> List[Tensor]:
    """For each dynamic table, whether keys without a row get one; empty if they do.

    It is the same for all lookups of a group.
    """
    dynamic = [member.candidate for member in members if member.candidate.is_dynamic]
    if not dynamic or dynamic[0].inputs.insert in (None, True):
        return []
    insert = write_insert(writer, dynamic[0].inputs.insert)
    return [insert] * len({candidate.tables for candidate in dynamic})


def _what_is_asked(shared: GroupOp, of_servers: Dict[str, Any], worker: str) -> Hashable:
    """What is the same for a lookup and an update that ask servers for the same bags."""
    attributes = {**shared.attributes, **of_servers}
    of_bags = sorted(attributes.keys() - _OF_RESULTS)
    inputs = tuple(tuple(tensors) for tensors in shared.inputs.values())
    return worker, inputs, tuple((name, str(attributes[name])) for name in of_bags)


def _gather(
    nodes: GroupNodes, shared: GroupOp, server: _Server, request: Tensor, is_resource: bool
) -> Tensor:
    shards = [shared.shards[shard] for shard in server.shards]
    return (
        nodes.writer("gather", server.device)
        .call(
            "rows",
            "ResourceGroupEmbeddingGather" if is_resource else "GroupEmbeddingGather",
            request=request,
            T=shared.shard_dtypes[0],
            **_of_shards(shards, is_resource),
        )
        .result
    )


def _catch_up(nodes: GroupNodes, gather: Any) -> None:
    """Makes a server's gather wait until the rows are current that it is asked for."""
    shards, request = list(gather.input[:-1]), gather.input[-1]
    for need in needs_of(shards, nodes.deferred):
        late = ShardInputs(shards, nodes.deferred, need)
        catch_up = nodes.writer("catch_up", gather.device).call(
            "rows",
            late.op("GroupEmbeddingCatchUpPacked"),
            request=Tensor(request),
            table_names=shards,
            **late.inputs,
            **late.attributes_of_rows,
        )
        gather.input.append("^" + catch_up.name)


def _apply(
    nodes: GroupNodes,
    shared: GroupOp,
    server: _Server,
    update: Tensor,
    updates: Dict[str, SparseUpdate],
    is_resource: bool,
    controls: Sequence[str],
) -> str:
    writer: NodeWriter = nodes.writer("apply", server.device)
    shards = [shared.shards[shard] for shard in server.shards]
    optimizer = update_arguments(writer, shards, updates, nodes.deferred, with_own=True)
    kind = "ResourceGroupEmbeddingApplyPacked" if is_resource else "GroupEmbeddingApplyPacked"
    return writer.call(
        "rows",
        kind,
        waits_for=controls,
        update=update,
        num_answers=int(nodes.answers),
        **optimizer,
        **_of_shards(shards, is_resource),
    ).name


def _servers(shared: GroupOp) -> List[_Server]:
    """The servers in the order of their first shards."""
    found: Dict[Optional[str], List[int]] = {}
    for shard, device in enumerate(shared.shard_devices):
        found.setdefault(task_of(device), []).append(shard)
    return [_Server(shared.shard_devices[shards[0]], tuple(shards)) for shards in found.values()]


def _server_attributes(shared: GroupOp, servers: Sequence[_Server]) -> Dict[str, Any]:
    numbers = {shard: number for number, server in enumerate(servers) for shard in server.shards}
    return dict(
        shard_servers=[numbers[shard] for shard in range(len(shared.shards))],
        num_servers=len(servers),
    )


def _of_shards(shards: Sequence[str], is_resource: bool) -> Dict[str, Any]:
    return dict(
        tables=[TensorRef(shard, 0) for shard in shards],
        table_names=list(shards),
        **colocated(shards, is_resource),
    )
