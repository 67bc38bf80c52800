"""Tables on one device, on which one op looks up and one updates."""

from __future__ import annotations

import dataclasses
from typing import Dict, Hashable, List, Optional, Sequence, Tuple

from graph_opt.graph.op_call import Call
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.deferred import Need, ShardInputs, needs_of
from graph_opt.passes.fusion.dynamic_rows import write_dynamic_rows
from graph_opt.passes.fusion.group_nodes import Columns, GroupNodes, colocated
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.update_arguments import update_arguments
from graph_opt.passes.tasks import runs_on_cpu, task_of
from graph_opt.rules.optimizers.sparse_update import SparseUpdate

_OWN = "/job:localhost/"


@dataclasses.dataclass(frozen=True)
class FusedLocal(FusedKind):
    """All tables of a group are on one device.

    Attributes:
      tables: That device.
    """

    tables: str

    @classmethod
    def of(cls, view: GraphView, candidate: Candidate) -> Optional[FusedLocal]:
        """See `FusedKind`."""
        devices = {table.device for table in candidate.lookup.tables}
        if len(devices) > 1:
            return None
        return cls(view.device(candidate.lookup.output.node), devices.pop())

    def group_key(self, table_dtype: int) -> Hashable:
        """One worker and one device; tables may have different dtypes."""
        del table_dtype
        return self

    @property
    def tasks_needing_ops(self) -> Tuple[str, ...]:
        """The tables' task, which may be a server that does all this for its own tables."""
        task = task_of(self.tables)
        return () if task is None or task.startswith(_OWN) else (task,)

    @property
    def takes_own_powers(self) -> bool:
        """See `FusedKind`: CPUs do."""
        return runs_on_cpu(self.tables)

    def write_lookup(
        self, nodes: GroupNodes, members: Sequence[Member], columns: Optional[Columns]
    ) -> Call:
        """See `FusedKind`."""
        write_dynamic_rows(nodes, members, self.tables)
        shared = nodes.group_op(members, self.tables, columns)
        is_resource = members[0].candidate.lookup.tables[0].is_resource
        return nodes.writer("lookup", self.tables).call(
            "pooled",
            "ResourceGroupEmbeddingLookup" if is_resource else "GroupEmbeddingLookup",
            tables=shared.tables,
            pooled_dtypes=nodes.pooled_dtypes(members, columns),
            **shared.inputs,
            **shared.attributes,
            **colocated(shared.shards, is_resource),
        )

    def write_catch_up(self, nodes: GroupNodes, members: Sequence[Member], lookup: Call) -> None:
        """See `FusedKind`."""
        for need, late in _by_need(nodes, members).items():
            shared = nodes.group_op(late, self.tables)
            shards = ShardInputs(shared.shards, nodes.deferred, need)
            catch_up = nodes.writer("catch_up", self.tables).call(
                "rows",
                shards.op("GroupEmbeddingCatchUp"),
                **shards.inputs,
                **shared.inputs,
                **shared.attributes,
                **shards.attributes_of_rows,
            )
            lookup.node.input.append("^" + catch_up.name)

    def write_update(
        self,
        nodes: GroupNodes,
        members: Sequence[Member],
        updates: Dict[str, SparseUpdate],
        controls: Sequence[str],
        columns: Optional[Columns],
    ) -> Dict[str, str]:
        """See `FusedKind`."""
        write_dynamic_rows(nodes, members, self.tables)
        shared = nodes.group_op(members, self.tables, columns, of_gradients=True)
        is_resource = members[0].candidate.lookup.tables[0].is_resource
        writer = nodes.writer("update", self.tables)
        optimizer = update_arguments(
            writer, shared.shards, updates, nodes.deferred, with_own=self.takes_own_powers
        )
        apply = writer.call(
            "apply",
            "ResourceGroupEmbeddingApply" if is_resource else "GroupEmbeddingApply",
            waits_for=controls,
            tables=shared.tables,
            gradients=nodes.pooled_gradients(members, self.tables, columns),
            **shared.inputs,
            **shared.attributes,
            **optimizer,
            **colocated(shared.shards, is_resource),
        )
        return {shard: apply.name for shard in shared.shards}


def _by_need(nodes: GroupNodes, members: Sequence[Member]) -> Dict[Need, List[Member]]:
    """The lookups of which rows may be behind."""
    found: Dict[Need, List[Member]] = {}
    for member in members:
        for need in needs_of(member.candidate.tables, nodes.deferred):
            found.setdefault(need, []).append(member)
    return found
