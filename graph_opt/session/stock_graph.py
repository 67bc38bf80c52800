"""A rewritten live graph as its user built it, beside the rewritten nodes."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableMapping, Tuple

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.live_graph import edited
from graph_opt.compat.tensor_keys import key_of, tensor_of
from graph_opt.export.users_graph import built_graph_def
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE
from graph_opt.passes.name_map import NameMap
from graph_opt.passes.stock_copy import CannotCopy, StockNames, stock_copy
from graph_opt.runtime.stages import stages_of
from graph_opt.session.fetch_map import FetchMap, Resolved
from graph_opt.session.graph_records import name_map_of
from graph_opt.session.rewritten_graph import apply_to_graph

_SEVERAL = "'{}' of the batch is read in several places"
_COMPUTED = "'{}' of the batch is computed ahead, by '{}'"


_Buffer = Tuple[bytes, bytes]


class StockGraph:
    """The copies that one graph has of what rewrites have changed; grows with the graph.

    Args:
      graph: A rewritten live graph.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = weakref.ref(graph)
        self._names = StockNames()
        self._version = -1
        self._puts = _puts(graph)
        self._sources = self._found_sources(graph, name_map_of(graph))

    @property
    def sources(self) -> Dict[str, str]:
        """The tensors from which stages read batches, by the names of the user's."""
        return dict(self._sources)

    @property
    def batches(self) -> Dict[str, str]:
        """The copied tensors of batches by the names of the user's."""
        return dict(self._names.batches)

    @property
    def originals(self) -> Dict[str, str]:
        """The user's nodes by the names of their copies."""
        return {copy: name for name, copy in self._names.nodes.items()}

    def put(self, taken: Any) -> Any:
        """The tensor that a stage passes on to main as `taken`; None if there is no single one."""
        fills = self._puts.get(_buffer(taken.op), ()) if taken.op.type == BUFFER_TAKE else ()
        return fills[0].inputs[taken.value_index] if len(fills) == 1 else None

    def cover(self) -> None:
        """Copies what the graph has got since the last call.

        Raises:
          CannotCopy: The graph cannot be run as it was built.
        """
        graph = self._graph()
        if graph is not None and graph.version != self._version:
            with edited(graph):
                self._cover(graph)

    def _cover(self, graph: Any) -> None:
        version = graph.version
        if version == self._version:
            return
        with collection_paused():
            running = running_graph_def(graph)
            built = built_graph_def(graph)
            rewrite, names = stock_copy(built, running, self._sources, self._names)
        if rewrite:
            apply_to_graph(graph, running, [rewrite])
        # Other threads may have added nodes meanwhile, which the next call is to see.
        self._names, self._version = names, version + len(rewrite.nodes)

    def _found_sources(self, graph: Any, name_map: NameMap) -> Dict[str, str]:
        """For each tensor of a batch that a stage passes on, the tensor that the stage reads."""
        found: Dict[str, str] = {}
        for name, taken in name_map.taken.items():
            if not _is_source(graph.get_tensor_by_name(name).op):
                continue
            source = self.put(graph.get_tensor_by_name(taken))
            if source is None:
                raise CannotCopy(_SEVERAL.format(name))
            if not _is_source(source.op):
                raise CannotCopy(_COMPUTED.format(name, source.op.name))
            found[name] = source.name
        return found

    def tensor(self, tensor: Any) -> Any:
        """The tensor that computes what its user's graph would."""
        return tensor.graph.get_tensor_by_name(self._names.tensor(tensor.name))

    def resolved(self, fetches: List[Any], targets: List[Any], feeds: List[Any]) -> Resolved:
        """What a step of the user's graph comes to."""
        fetched = [self.tensor(tensor) for tensor in fetches]
        run = [self.operation(target) for target in targets]
        fed = [self.tensor(tensor) for tensor in feeds]
        reached = operations_behind([tensor.op for tensor in fetched] + run, fed)
        return Resolved(fetched, run, fed, reached)

    def operation(self, operation: Any) -> Any:
        """The operation that does what its user's graph would."""
        name = self._names.nodes.get(operation.name)
        if name is None and operation.outputs:
            return self.tensor(operation.outputs[0]).op
        return operation.graph.get_operation_by_name(name or operation.name)


_of_graphs: MutableMapping[Any, StockGraph] = weakref.WeakKeyDictionary()


def stock_graph(graph: Any) -> StockGraph:
    """The copies that a graph has, made if it has none.

    Raises:
      CannotCopy: The graph cannot be run as it was built.
    """
    found = _of_graphs.get(graph)
    if found is None:
        with edited(graph):
            found = _of_graphs.setdefault(graph, StockGraph(graph))
    found.cover()
    return found


class StockFetches(FetchMap):
    """What fetches mean once a rewritten graph runs as its user built it."""

    def __init__(self, graph: Any) -> None:
        super().__init__(graph, NameMap())
        self._stock = stock_graph(graph)

    def resolved(
        self,
        fetches: List[Any],
        targets: List[Any],
        feeds: List[Any],
        is_partial: bool = False,
    ) -> Resolved:
        """What a step comes to that fetches, runs and feeds these."""
        self._stock.cover()
        return self._stock.resolved(fetches, targets, feeds)

    def fed(self, values: Dict[Any, Any]) -> Dict[Any, Any]:
        """What to feed in place of these values, by the tensors' references."""
        return {key_of(self._stock.tensor(tensor_of(key))): value for key, value in values.items()}


def _puts(graph: Any) -> Dict[_Buffer, List[Any]]:
    """The operations that fill each buffer."""
    found: Dict[_Buffer, List[Any]] = {}
    for stage in stages_of(graph):
        for put in stage.puts:
            operation = graph.get_operation_by_name(put.name)
            found.setdefault(_buffer(operation), []).append(operation)
    return found


def _is_source(operation: Any) -> bool:
    return operation.type in BATCH_SOURCES or operation.type == BUFFER_TAKE


def _buffer(operation: Any) -> _Buffer:
    return operation.get_attr("container"), operation.get_attr("shared_name")
