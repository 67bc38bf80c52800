"""Tensors of prefetch for the batch that main has taken."""

from __future__ import annotations

from typing import Any, Dict

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.live_graph import edited
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.prefetch.batch_copies import Regions, batch_copies
from graph_opt.passes.prefetch.fetch_guard import GUARD
from graph_opt.passes.translation import Translation
from graph_opt.session.rewritten_graph import apply_to_graph


class BatchValues:
    """Computes in main what stages compute ahead, where nothing but the batch decides it.

    Args:
      graph: A rewritten live graph.
      translation: What its names stand for.
    """

    def __init__(self, graph: Any, translation: Translation) -> None:
        self._graph = graph
        self._regions = Regions(translation.taken, translation.substitutes, translation.prefetched)
        self._copies: Dict[str, str] = {}

    def tensor(self, tensor: Any) -> Any:
        """The tensor to fetch in place of one that depends on prefetch.

        Raises:
          CannotCopy: Something else decides its value.
        """
        wanted = TensorRef.parse(tensor.name)
        if wanted.node not in self._copies:
            with edited(self._graph), collection_paused():
                running = running_graph_def(self._graph)
                rewrite, self._copies = batch_copies(
                    GraphView(running), tensor.name, self._regions, self._copies
                )
                if rewrite:
                    apply_to_graph(self._graph, running, [rewrite])
        copy = TensorRef(self._copies.get(wanted.node, wanted.node), wanted.index)
        return self._graph.get_tensor_by_name(str(copy))


def depends_on_prefetch(reached: Any) -> bool:
    """Whether running these operations would run the source of a stage in main."""
    return any(each.type == "Assert" and each.name.endswith("/" + GUARD) for each in reached)
