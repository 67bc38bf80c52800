"""The placements of tables for which lookups can be fused."""

from __future__ import annotations

from typing import Tuple, Type

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Candidate
from graph_opt.passes.fusion.placement import Placement
from graph_opt.passes.fusion.placements.local import Local
from graph_opt.passes.fusion.placements.parameter_servers import ParameterServers

PLACEMENTS: Tuple[Type[Placement], ...] = (ParameterServers, Local)


def placement_of(view: GraphView, candidate: Candidate) -> Placement:
    """The placement of a lookup's tables: the first that applies.

    Raises:
      Refusal: tables_on_several_devices.
    """
    for kind in PLACEMENTS:
        placement = kind.of(view, candidate)
        if placement is not None:
            return placement
    devices = dict.fromkeys(table.device for table in candidate.lookup.tables)
    raise Refusal(
        "tables_on_several_devices",
        at=candidate.lookup.gathers[0],
        need="shards of a table on one device, or all on parameter servers",
        saw=", ".join(device or "no device" for device in devices),
    )
