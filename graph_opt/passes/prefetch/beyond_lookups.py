"""Extends the regions of lookups to where a smart stage would end.

    source -> ids -> lookup   |
    source -> parse dense     | layers

What stands beside the lookups then runs ahead with them, in the same stage.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Sequence, Set

from graph_opt.config.smart_stage import SmartStageOptions
from graph_opt.graph.view import GraphView
from graph_opt.passes.io_stages import BatchFlow
from graph_opt.passes.prefetch.boundary import Boundary
from graph_opt.passes.prefetch.constant_part import ConstantPart
from graph_opt.passes.prefetch.movable import Movability
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.passes.prefetch.region_clone import cpu_of
from graph_opt.passes.unused_gradients import UnusedGradients
from graph_opt.reporting.tables import counted

_MOVED = "smart stage: {} more moved ahead of the step with the lookups, {} of theirs cross"
_UNUSED = " (in their stage, so that smart_stage_options have no effect)"


class BeyondLookups:
    """What a smart stage adds to the regions of one graph.

    Args:
      view: The graph.
      flow: Its batch flow.
      unused: Gradients whose reads do not count.
      threads_num: Number of threads of a stage.
      smart: Options of the smart stage, of which only `on_cpu` counts here.
    """

    def __init__(
        self,
        view: GraphView,
        flow: BatchFlow,
        unused: UnusedGradients,
        threads_num: int,
        smart: SmartStageOptions,
    ) -> None:
        self._view = view
        self._flow = flow
        self._unused = unused
        self._movability = Movability(view, threads_num, constant_state=True)
        self._smart = smart
        self._added: Set[str] = set()
        self._ahead = 0
        self._crossing = 0

    def extend(self, regions: Sequence[PrefetchRegion]) -> List[PrefetchRegion]:
        """The regions with what a smart stage would move."""
        sources = [region.source for region in regions]
        constant = ConstantPart(self._view, self._flow, sources, self._movability, self._unused)
        place = {name: number for number, name in enumerate(self._flow.order)}
        return [self._extended(region, constant, place) for region in regions]

    def count(self, boundary: Boundary) -> None:
        """Notes that a region got its stage, cut there."""
        self._ahead += len(self._added.intersection(boundary.hidden))
        self._crossing += sum(tensor.node in self._added for tensor in boundary.tensors)

    def place(self, nodes: Iterable[Any]) -> None:
        """Puts what was added on the CPU, if it is to be there.

        Args:
          nodes: Those of a stage, each named as in the graph behind the name of the stage.
        """
        for node in nodes if self._smart.on_cpu else ():
            if node.name.partition("/")[2] in self._added:
                node.device = cpu_of(node.device)

    def told(self) -> str:
        """A line for the report; "" if nothing was added."""
        if not self._ahead:
            return ""
        told = _MOVED.format(counted(self._ahead, "node"), counted(self._crossing, "tensor"))
        unused = self._smart != SmartStageOptions(on_cpu=self._smart.on_cpu)
        return told + _UNUSED if unused else told

    def _extended(
        self, region: PrefetchRegion, constant: ConstantPart, place: Dict[str, int]
    ) -> PrefetchRegion:
        inside = set(region.nodes)
        added = set(constant.read_by_main(region.source, inside)) - inside
        self._added.update(added)
        return region._replace(nodes=tuple(sorted(inside | added, key=place.__getitem__)))
