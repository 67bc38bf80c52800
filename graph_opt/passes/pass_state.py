"""What one pass passes on to the next: the graph, the rewrites so far, what its names mean."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Tuple

from graph_opt.graph.output_shapes import give_output_shapes
from graph_opt.graph.rewrite import Rewrite, edited_nodes
from graph_opt.graph.shared_views import view_of
from graph_opt.graph.view import GraphView
from graph_opt.passes.dead_nodes import superseded_lookups
from graph_opt.passes.name_map import UNCHANGED, NameMap
from graph_opt.passes.prefetch.verify_stages import verify_stages
from graph_opt.reporting.report import Report


@dataclasses.dataclass(frozen=True)
class PassState:
    """The graph between two passes.

    Attributes:
      view: The graph as earlier passes left it, without nodes that nothing runs any more; the
        rewritten GraphDef still contains these.
      rewrites: The rewrites applied so far, in order.
      name_map: What the names of the user's graph currently stand for.
      report: What was found and done so far, for people; no pass acts on it.
    """

    view: GraphView
    rewrites: Tuple[Rewrite, ...] = ()
    name_map: NameMap = UNCHANGED
    report: Report = dataclasses.field(default_factory=Report)

    @classmethod
    def of(cls, graph_def: Any) -> PassState:
        """The state before the first pass."""
        view = view_of(graph_def)
        return cls(view).without(superseded_lookups(view))

    def rewritten(self, rewrite: Rewrite) -> PassState:
        """The state after a rewrite, which is verified.

        Raises:
          GraphError: The rewritten graph is not legal.
        """
        if not rewrite:
            return self
        give_output_shapes(self.view, rewrite.nodes)
        view = self.view.after(edited_nodes(self.view.nodes, rewrite), rewrite.nodes)
        verify_stages(view)
        return dataclasses.replace(self, view=view, rewrites=(*self.rewrites, rewrite))

    def reporting(self, *changes: str, **fields: Any) -> PassState:
        """The state after a pass reported what it did.

        Args:
          *changes: Lines for people.
          **fields: New values of the report's fields.
        """
        report = dataclasses.replace(
            self.report, changes=(*self.report.changes, *changes), **fields
        )
        return dataclasses.replace(self, report=report)

    def without(self, dead: AbstractSet[str]) -> PassState:
        """The state in which later passes do not see these nodes, which no other node reads."""
        if not dead:
            return self
        name_map = self.name_map.with_dead(dead)
        return dataclasses.replace(self, view=self.view.without(dead), name_map=name_map)
