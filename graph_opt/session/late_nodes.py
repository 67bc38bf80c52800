"""Changes nodes that use tables and that a graph gets after it was rewritten.

Savers, summaries, sums of a table and assignments may be added at any time: by TensorFlow's session
creators before they finalize the graph, or by a script between two steps. TensorFlow hands new
nodes to a session at its next run and ignores edits to them from then on. So before that, whatever
reads or writes a deferred variable must be made to wait for its rows, what is assigned to a divided
one be reduced to this rank's rows, and what writes a table whose rows run ahead be logged.
"""

from __future__ import annotations

import dataclasses
import weakref
from typing import AbstractSet, Any, Iterable, List, MutableMapping, Set

from graph_opt.compat.exported_graph import running_graph_def
from graph_opt.compat.graph_growth import before_finalizing, is_reference, operations_from
from graph_opt.compat.live_graph import edited
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.bring_to_date import rewrite_for_new_readers
from graph_opt.passes.prefetch.exact_tables import log_writers, tell_writers
from graph_opt.passes.shard_tables.divide_variables import divide_for_late_nodes
from graph_opt.session.graph_records import note_grown, translation_of
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
    translation = translation_of(graph)
    watched = (translation.deferred, translation.divided, translation.exact)
    if any(each is not None for each in watched):
        _growths[graph] = _Growth(graph)
        before_finalizing(graph, rewrite_late_nodes)


def has_no_late_nodes(graph: Any) -> bool:
    """Whether every node of the graph has been looked at, or none needs to be."""
    growth = _growths.get(graph)
    return growth is None or growth.version == graph.version


def rewrite_late_nodes(graph: Any) -> None:
    """Makes new nodes wait until rows are up to date, and use this rank's rows only.

    What their names stand for is in `translation_of(graph)` afterwards.
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
            for change in (_bring_to_date, _divide, _log_writers):
                growth.ours |= change(graph, theirs, names)
            growth.version, growth.count = version, growth.count + len(new)


def _bring_to_date(graph: Any, new: List[Any], names: AbstractSet[str]) -> AbstractSet[str]:
    """Rewrites the graph for its new nodes; returns the names of the nodes that this adds."""
    translation = translation_of(graph)
    if translation.deferred is None:
        return frozenset()
    variables = {name for each in translation.deferred.variables for name in each.variables}
    if not _touch(new, variables, translation.up_to_date):
        return frozenset()
    before = _running(graph)
    with collection_paused():
        rewrite, up_to_date = rewrite_for_new_readers(
            GraphView(before), translation.deferred, names
        )
    if rewrite:
        apply_to_graph(graph, before, [rewrite])
    if up_to_date:
        merged = {**translation.up_to_date, **up_to_date}
        note_grown(graph, dataclasses.replace(translation, up_to_date=merged))
    return {node.name for node in rewrite.nodes}


def _divide(graph: Any, new: List[Any], names: AbstractSet[str]) -> AbstractSet[str]:
    """The same for divided variables."""
    translation = translation_of(graph)
    if translation.divided is None:
        return frozenset()
    variables = {variable.name for variable in translation.divided.variables}
    if not _touch(new, variables, translation.divided.values):
        return frozenset()
    before = _running(graph)
    with collection_paused():
        grown = divide_for_late_nodes(GraphView(before), translation.divided, names)
    if grown.rewrite:
        apply_to_graph(graph, before, [grown.rewrite])
    note_grown(graph, dataclasses.replace(translation, divided=grown.variables))
    return {node.name for node in grown.rewrite.nodes}


def _log_writers(graph: Any, new: List[Any], names: AbstractSet[str]) -> AbstractSet[str]:
    """The same for tables whose lookups run ahead and yet have the rows of the step."""
    translation = translation_of(graph)
    exact = translation.exact
    if exact is None or not _touch(new, {*exact.variables, *exact.served}, ()):
        return frozenset()
    added: Set[str] = set()
    with collection_paused():
        before = _running(graph)
        rewrite = log_writers(GraphView(before), exact.variables, names)
        if rewrite:
            apply_to_graph(graph, before, [rewrite])
            added.update(node.name for node in rewrite.nodes)
            before = _running(graph)
        rewrite, told = tell_writers(GraphView(before), exact.served, names)
    if rewrite:
        apply_to_graph(graph, before, [rewrite])
        added.update(node.name for node in rewrite.nodes)
        grown = dataclasses.replace(exact, side_targets={**exact.side_targets, **told})
        note_grown(graph, dataclasses.replace(translation, exact=grown))
    return added


def _running(graph: Any) -> Any:
    with collection_paused():
        return running_graph_def(graph, add_shapes=True)


def _touch(operations: List[Any], variables: AbstractSet[str], values: Iterable[str]) -> bool:
    """Whether any of these operations may use one of the variables, or a tensor with its value."""
    known = set(variables)
    for tensor in values:
        known.add(tensor.rpartition(":")[0])
    return any(
        tensor.op.name in known or (is_reference(tensor) and _leads_to(tensor, variables))
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
