"""What stands between a batch and the variables: all that has the same value whenever it runs.

    source -> parse -> normalize -> | layers of variables -> loss

Such a node depends on one batch, and on nothing that steps change; it may read hash tables that an
initializer fills. A result that nothing reads, such as a metric of the labels, stays in main, where
it can be fetched. So does the empty list that a loop of main fills for its gradient: running it
ahead gains nothing, and TensorFlow lets nobody change the inputs that a gradient adds to a loop.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, Sequence, Tuple

from graph_opt.compat.op_definitions import is_value, is_variant
from graph_opt.graph.control_flow_ops import CONTROL_FLOW
from graph_opt.graph.view import GraphView
from graph_opt.ops.stage_spec import TARGET_MARK
from graph_opt.passes.io_stages import BatchFlow, sources_of
from graph_opt.passes.prefetch.movable import Movability
from graph_opt.passes.unused_gradients import UnusedGradients


class ConstantPart:
    """The constant part of a graph behind some of its sources.

    Args:
      view: The graph.
      flow: Its batch flow.
      sources: The sources that count.
      movability: Decides about single operations, of which only constant state may be read.
      unused: Gradients whose reads do not count.
    """

    def __init__(
        self,
        view: GraphView,
        flow: BatchFlow,
        sources: Sequence[str],
        movability: Movability,
        unused: UnusedGradients,
    ) -> None:
        self._view = view
        self._flow = flow
        self._movability = movability
        self._unused = unused.nodes
        self._source_of = self._find(sources)

    def read_by_main(self, source: str, moved: AbstractSet[str] = frozenset()) -> Tuple[str, ...]:
        """The nodes behind a source whose results main needs; what nothing reads stays in main.

        Args:
          source: The source.
          moved: Nodes that run ahead in any case, and so are not main's.

        Returns:
          The nodes in topological order.
        """
        view = self._view
        ends = [
            name
            for name, origin in self._source_of.items()
            if origin == source
            and any(
                self._is_of_main(use.consumer, moved) and not is_variant(view.dtype(tensor) or 0)
                for tensor, use in view.node_uses(name)
            )
        ]
        needed = view.ancestors(ends)
        return tuple(name for name in self._source_of if name in needed)

    def _is_of_main(self, name: str, moved: AbstractSet[str]) -> bool:
        return name not in self._source_of and name not in moved and name not in self._unused

    def _find(self, sources: Sequence[str]) -> Dict[str, str]:
        """The nodes of the part, with the source of each."""
        masks = self._flow.masks
        found = {source: source for source in sources}
        for name in self._flow.order:
            if name not in masks or name in found:
                continue
            above = [node for node in self._view.predecessors(name) if node in masks]
            reached = sources_of(self._flow, masks[name])
            if len(reached) == 1 and all(node in found for node in above) and self._moves(name):
                found[name] = reached[0]
        return {name: source for name, source in found.items() if name != source}

    def _moves(self, name: str) -> bool:
        view = self._view
        if view.op(name) in CONTROL_FLOW or view.attribute(name, TARGET_MARK) is not None:
            return False
        if not all(is_value(number) for number in view.dtypes(name) or []):
            return False
        if self._movability.refuse_operation(name) is not None:
            return False
        outside = [
            self._movability.outside(node)
            for node in view.predecessors(name)
            if node not in self._flow.masks
        ]
        return not any(each.blocker or each.variable for each in outside)
