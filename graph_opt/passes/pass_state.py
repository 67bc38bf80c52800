"""What one pass hands to the next: the graph so far, how it came about, what its names mean."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, Tuple

from graph_opt.compat import tf
from graph_opt.graph.rewrite import Rewrite, apply_to_graph_def
from graph_opt.graph.view import GraphView
from graph_opt.passes.dead_nodes import superseded_lookups
from graph_opt.passes.prefetch.verify_stages import verify_stages
from graph_opt.passes.translation import UNCHANGED, Translation
from graph_opt.reporting.report import Report


@dataclasses.dataclass(frozen=True)
class PassState:
    """The graph between two passes.

    Attributes:
      view: The graph as the passes before left it, less the nodes that nothing runs any more.
      graph_def: The same with these nodes: nothing is ever removed from a user's graph.
      rewrites: Applied so far, in order.
      translation: What the names of the user's graph stand for by now.
      report: What was found and done so far, for people: no pass acts on it.
    """

    view: GraphView
    graph_def: Any
    rewrites: Tuple[Rewrite, ...] = ()
    translation: Translation = UNCHANGED
    report: Report = dataclasses.field(default_factory=Report)

    @classmethod
    def of(cls, graph_def: Any) -> PassState:
        """The state before the first pass."""
        view = GraphView(graph_def)
        return cls(view, graph_def).without(superseded_lookups(view))

    def rewritten(self, rewrite: Rewrite) -> PassState:
        """The state after a rewrite, verified.

        Raises:
          GraphError: the rewritten graph is not legal.
        """
        if not rewrite:
            return self
        whole = apply_to_graph_def(self.graph_def, rewrite)
        seen = whole
        if self.view.graph_def is not self.graph_def:
            seen = apply_to_graph_def(self.view.graph_def, rewrite)
        view = self.view.after(seen, rewrite.edited)
        verify_stages(view)
        rewrites = (*self.rewrites, rewrite)
        return dataclasses.replace(self, view=view, graph_def=whole, rewrites=rewrites)

    def without(self, dead: AbstractSet[str]) -> PassState:
        """The state in which later passes no longer see these nodes; no other node reads them."""
        if not dead:
            return self
        seen = tf.GraphDef(versions=self.view.graph_def.versions)
        seen.library.CopyFrom(self.view.graph_def.library)
        seen.node.extend(node for node in self.view.graph_def.node if node.name not in dead)
        translation = self.translation.with_dead(dead)
        return dataclasses.replace(self, view=GraphView(seen), translation=translation)
