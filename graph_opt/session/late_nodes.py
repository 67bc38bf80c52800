"""Changes nodes that use tables and that a graph gets after it was rewritten.

Savers, summaries, sums of a table and assignments may be added at any time: by TensorFlow's session
creators before they finalize the graph, or by a script between two steps. TensorFlow hands new
nodes to a session at its next run and ignores edits to them from then on. So before that, whatever
reads or writes a deferred variable must be made to wait for its rows, what is assigned to a sharded
one be reduced to this rank's rows, and what writes a table whose rows run ahead be logged.
"""

from __future__ import annotations

import weakref
from typing import AbstractSet, Any, List, MutableMapping, Set, Type

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.graph_growth import before_finalizing, is_reference, operations_from
from graph_opt.compat.live_graph import edited
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.view import GraphView
from graph_opt.session.features.feature import Feature, Watched
from graph_opt.session.features.listed import FEATURES, features_in
from graph_opt.session.graph_records import name_map_of, note_grown
from graph_opt.session.rewritten_graph import apply_to_graph


class _Growth:
    """How much of one graph is known.

    Attributes:
      version: The graph's version up to which nothing is left to do.
      count: How many of its operations have been looked at.
      ours: Names of the nodes that were added for its new readers.
    """

    def __init__(self, graph: Any) -> None:
        self.version = graph.version
        self.count = len(operations_from(graph, 0))
        self.ours: Set[str] = set()


_growths: MutableMapping[Any, _Growth] = weakref.WeakKeyDictionary()


def watch_growth(graph: Any) -> None:
    """From now on, nodes that are added to a rewritten graph are looked at.

    Sessions of graph_opt call `rewrite_late_nodes`; for those that TensorFlow's session creators
    open, it is called before the graph is finalized.
    """
    found = features_in(name_map_of(graph))
    if any(feature.watched(part).variables for feature, part in found):
        _growths[graph] = _Growth(graph)
        before_finalizing(graph, rewrite_late_nodes)


def has_no_late_nodes(graph: Any) -> bool:
    """Whether every node of the graph has been looked at, or none needs to be."""
    growth = _growths.get(graph)
    return growth is None or growth.version == graph.version


def rewrite_late_nodes(graph: Any) -> None:
    """Makes new nodes wait until rows are up to date, and use this rank's rows only.

    What their names stand for is in `name_map_of(graph)` afterwards.
    """
    growth = _growths.get(graph)
    if growth is None:
        return
    with edited(graph):
        while growth.version != graph.version:
            version = graph.version
            new = operations_from(graph, growth.count)
            theirs = [operation for operation in new if operation.name not in growth.ours]
            names = {operation.name for operation in theirs}
            for feature in FEATURES:
                growth.ours |= _rewrite_for(graph, feature, theirs, names)
            growth.version, growth.count = version, growth.count + len(new)


def _rewrite_for(
    graph: Any, feature: Type[Feature], new: List[Any], names: AbstractSet[str]
) -> AbstractSet[str]:
    """Rewrites the graph for its new nodes; returns the names of the nodes that this adds."""
    name_map = name_map_of(graph)
    part = name_map.part(feature.part_type)
    if part is None:
        return frozenset()
    watched = feature.watched(part)
    if not watched.variables or not _touch(new, watched):
        return frozenset()
    before = _running(graph)
    with collection_paused():
        late = feature.rewrite_late(GraphView(before), part, names)
    if late.rewrite:
        apply_to_graph(graph, before, [late.rewrite])
    if late.part is not part:
        note_grown(graph, name_map.with_part(late.part))
    return {node.name for node in late.rewrite.nodes}


def _running(graph: Any) -> Any:
    with collection_paused():
        return running_graph_def(graph, add_shapes=True)


def _touch(operations: List[Any], watched: Watched) -> bool:
    """Whether any of these operations may use one of the variables, or a tensor with its value."""
    known = {*watched.variables, *(tensor.rpartition(":")[0] for tensor in watched.values)}
    return any(
        tensor.op.name in known or (is_reference(tensor) and _leads_to(tensor, watched.variables))
        for operation in operations
        for tensor in operation.inputs
    )


def _leads_to(tensor: Any, variables: AbstractSet[str]) -> bool:
    """Whether a reference or handle is, through switches and the like, that of a variable."""
    waiting, seen = [tensor], set()
    while waiting:
        operation = waiting.pop().op
        if operation.name in variables:
            return True
        if operation.name not in seen:
            seen.add(operation.name)
            waiting.extend(each for each in operation.inputs if is_reference(each))
    return False
