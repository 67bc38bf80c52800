"""Exports the user's graph instead of the one that runs.

    runs      the user's nodes, our nodes, moved edges
    leaves    the user's nodes and edges; our ops that the user called become TensorFlow's

Checkpoints' `.meta`, SavedModels, `graph.pbtxt`, event files, frozen graphs and
`session.graph_def` all go through `tf.Graph.as_graph_def`, which is where this is done.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import conversion_of, export_through, running_graph_def
from graph_opt.export.stock_dynamic import stock_dynamic_tables
from graph_opt.export.stock_groups import stock_groups
from graph_opt.export.stock_initial_rows import stock_initial_rows
from graph_opt.export.stock_stages import stock_stages
from graph_opt.graph.collection import collection_paused
from graph_opt.graph.undo import MovedInput, Undo, node_of_input
from graph_opt.reporting.warnings_given import warn_once

_MOST_NAMED = 3
_OURS = (
    "TensorBuffer",
    "GroupEmbedding",
    "ResourceGroupEmbedding",
    "Exchange",
    "ResourceExchange",
    "KeyIndex",
    "ResourceIntegerLookup",
    "DynamicTable",
    "GroupDynamicRows",
    "GraphOpt",
    "LogUpdatedRows",
    "UpdatedRowsPosition",
    "MeasureStaleness",
)


def export_users_graph(graph: Any, undo: Optional[Undo] = None) -> None:
    """From now on, exports of this graph are what its user built, in TensorFlow's own ops.

    Args:
      graph: A live graph that has, or is about to get, ops of ours.
      undo: Reverts a rewrite that was applied to the graph.

    Example:
      >>> export_users_graph(graph, undo_of(graph_def, rewrites))
    """
    conversion = conversion_of(graph)
    if not isinstance(conversion, _UsersGraph):
        conversion = _UsersGraph()
        export_through(graph, conversion)
    if undo is not None:
        conversion.undos.append(undo)


def users_graph_def(graph: Any) -> Tuple[Any, List[str]]:
    """What `graph.as_graph_def()` exports, and what it warns of: ops of ours that are left in it.

    Args:
      graph: A live graph.
    """
    conversion = conversion_of(graph)
    graph_def = running_graph_def(graph)
    lines: List[str] = []
    if isinstance(conversion, _UsersGraph):
        lines = conversion.convert(graph_def, graph)
    return graph_def, lines


def built_graph_def(graph: Any) -> Any:
    """The graph without rewrites, and with the ops of ours that its user called.

    Args:
      graph: A live graph.
    """
    graph_def = running_graph_def(graph)
    with collection_paused():
        for undo in reversed(undos_of(graph)):
            undo.apply(graph_def)
    return graph_def


def undos_of(graph: Any) -> List[Undo]:
    """What undoes the rewrites of a live graph, in the order in which they were applied."""
    conversion = conversion_of(graph)
    return list(conversion.undos) if isinstance(conversion, _UsersGraph) else []


def moved_inputs(graph: Any) -> List[MovedInput]:
    """The data edges of a live graph that rewrites have moved, each from first to last place."""
    found: Dict[Tuple[str, int], MovedInput] = {}
    for undo in undos_of(graph):
        for edit in undo.inputs:
            place = edit.node, edit.slot
            found[place] = found.get(place, edit)._replace(after=edit.after)
    return list(found.values())


def has_our_ops(graph: Any) -> bool:
    """Whether the graph has ops of graph_opt."""
    return any(is_ours(operation.type) for operation in graph.get_operations())


def is_ours(op_type: str) -> bool:
    """Whether an op is registered by graph_opt's library.

    Example:
      >>> is_ours("TensorBufferTake")
      True
    """
    return op_type.startswith(_OURS)


class _UsersGraph:
    """The conversion of one graph."""

    def __init__(self) -> None:
        self.undos: List[Undo] = []
        self._made: Dict[bytes, List[Any]] = {}

    def __call__(self, graph_def: Any, graph: Any) -> Any:
        for line in self.convert(graph_def, graph):
            # Once: an export asks for the graph several times, and so does each checkpoint.
            warn_once(line, graph)
        return graph_def

    def convert(self, graph_def: Any, graph: Any) -> List[str]:
        """Makes the user's graph of it, and returns lines about what is left of ours."""
        with collection_paused():
            for undo in reversed(self.undos):
                undo.apply(graph_def)
            lines = stock_stages(graph_def) + stock_groups(graph_def, graph, self._made)
            stock_initial_rows(graph_def, graph, self._made)
            lines += stock_dynamic_tables(graph_def, graph, self._made)
            return lines + _left(graph_def) + self._in_collections(graph_def, graph)

    def _in_collections(self, graph_def: Any, graph: Any) -> List[str]:
        """Lines about nodes in collections of the script that are not exported."""
        held = [
            (key, item.name)
            for key in graph.get_all_collection_keys()
            for item in graph.get_collection_ref(key)
            if isinstance(item, (tf.Tensor, tf.Operation))
            and any(node_of_input(item.name) in undo.added for undo in self.undos)
        ]
        if not held:
            return []
        leaving = {node.name for node in graph_def.node}
        line = (
            "collection '{}' holds '{}', a node of graph_opt that is not exported, so the exported "
            "collection cannot be imported: put the tensor of the model there"
        )
        return [line.format(*each) for each in held if node_of_input(each[1]) not in leaving]


def _left(graph_def: Any) -> List[str]:
    """A line about the ops that only graph_opt knows, if the exported graph has any."""
    left = ["'{}' ({})".format(node.name, node.op) for node in graph_def.node if is_ours(node.op)]
    for function in graph_def.library.function:
        for node in function.node_def:
            if is_ours(node.op):
                where = "'{}' in function '{}' ({})"
                left.append(where.format(node.name, function.signature.name, node.op))
    if not left:
        return []
    named = ", ".join(left[:_MOST_NAMED]) + (", ..." if len(left) > _MOST_NAMED else "")
    exchanges = any(node.op.startswith("Exchange") for node in graph_def.node)
    line = (
        "the exported graph keeps {} ops that TensorFlow alone cannot load: {}. Call "
        "graph_opt.load_op_library() before it is loaded, or export {} (docs/exporting.md)"
    )
    instead = (
        "what has whole tables with graph_opt.sok.export_saved_model"
        if exchanges
        else "a graph built without them"
    )
    return [line.format(len(left), named, instead)]
