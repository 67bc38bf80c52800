"""Chooses the kind of tables that lookups and updates are fused for."""

from __future__ import annotations

from typing import Sequence

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate, slices_member
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.kinds.local import FusedLocal
from graph_opt.passes.fusion.kinds.ranks import FusedOnRanks
from graph_opt.passes.fusion.kinds.servers import FusedOnServers
from graph_opt.passes.table_kinds import KINDS
from graph_opt.passes.tasks import runs_on_cpu, task_of
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Table


def fused_kind_of(view: GraphView, candidate: Candidate) -> FusedKind:
    """The kind of a lookup's tables: the first that applies.

    Raises:
      Refusal: tables_on_several_devices.
    """
    for kind in KINDS:
        fused = kind.fused.of(view, candidate) if kind.fused else None
        if fused is not None:
            return fused
    devices = dict.fromkeys(table.device for table in candidate.lookup.tables)
    raise Refusal(
        "tables_on_several_devices",
        at=candidate.lookup.gathers[0],
        need="shards of a table on one device, or all on parameter servers",
        saw=", ".join(device or "no device" for device in devices),
    )


def fused_kind_of_slices(view: GraphView, table: Table, parts: Sequence[Slices]) -> FusedKind:
    """The kind of a table whose update takes IndexedSlices: they come from one task, or not.

    Args:
      view: The graph.
      table: A variable.
      parts: The IndexedSlices.
    """
    tasks = {task_of(view.device(part.values.node)) for part in parts}
    if len(tasks) == 1:
        kind = FusedOnServers.of(view, slices_member(table, parts[0]).candidate)
        if kind is not None:
            return kind
    if len(parts) == 1 and runs_on_cpu(table.device):
        on_ranks = FusedOnRanks.of_slices(view, table.device, parts[0])
        if on_ranks is not None:
            return on_ranks
    return FusedLocal(table.device, table.device)
