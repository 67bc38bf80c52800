"""Chooses the placement of tables that lookups and updates are fused for."""

from __future__ import annotations

from typing import Sequence

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate, slices_member
from graph_opt.passes.fusion.placement import Placement
from graph_opt.passes.fusion.placements.local import Local
from graph_opt.passes.fusion.placements.parameter_servers import ParameterServers
from graph_opt.passes.table_kinds import KINDS
from graph_opt.passes.tasks import task_of
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Table


def placement_of(view: GraphView, candidate: Candidate) -> Placement:
    """The placement of a lookup's tables: the first that applies.

    Raises:
      Refusal: tables_on_several_devices.
    """
    for kind in KINDS:
        placement = kind.placement.of(view, candidate) if kind.placement else None
        if placement is not None:
            return placement
    devices = dict.fromkeys(table.device for table in candidate.lookup.tables)
    raise Refusal(
        "tables_on_several_devices",
        at=candidate.lookup.gathers[0],
        need="shards of a table on one device, or all on parameter servers",
        saw=", ".join(device or "no device" for device in devices),
    )


def placement_of_slices(view: GraphView, table: Table, parts: Sequence[Slices]) -> Placement:
    """The placement of a table whose update takes IndexedSlices: they come from one task, or not.

    Args:
      view: The graph.
      table: A variable.
      parts: The IndexedSlices.
    """
    tasks = {task_of(view.device(part.values.node)) for part in parts}
    if len(tasks) == 1:
        placement = ParameterServers.of(view, slices_member(table, parts[0]).candidate)
        if placement is not None:
            return placement
    return Local(table.device, table.device)
