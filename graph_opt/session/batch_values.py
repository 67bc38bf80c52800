"""Tensors of prefetch for the batch that main has taken."""

from __future__ import annotations

from typing import AbstractSet, Any, List, Sequence

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.live_graph import edited
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.prefetch.batch_copies import Regions, batch_copies, copy_name
from graph_opt.session.rewritten_graph import apply_to_graph


class BatchValues:
    """Computes in main what stages compute ahead, where nothing but the batch decides it.

    Args:
      graph: A rewritten live graph.
      name_map: What its names stand for.
    """

    def __init__(self, graph: Any, name_map: NameMap) -> None:
        self._graph = graph
        self._regions = Regions(name_map.taken, name_map.substitutes, name_map.prefetched)

    def tensors(self, wanted: Sequence[Any]) -> List[Any]:
        """The tensors to fetch in place of some that depend on prefetch.

        Raises:
          NotOfBatch: Something else decides the value of one.
        """
        with edited(self._graph), collection_paused():
            running = running_graph_def(self._graph)
            view = GraphView(running)
            rewrite = batch_copies(view, [tensor.name for tensor in wanted], self._regions)
            if rewrite:
                apply_to_graph(self._graph, running, [rewrite])
        copies = {node.name for node in rewrite.nodes}.union(view.nodes)
        return [self._of_main(TensorRef.parse(tensor.name), copies) for tensor in wanted]

    def _of_main(self, wanted: TensorRef, nodes: AbstractSet[str]) -> Any:
        copy = TensorRef(copy_name(wanted.node), wanted.index)
        return self._graph.get_tensor_by_name(str(copy if copy.node in nodes else wanted))
