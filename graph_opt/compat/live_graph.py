"""Edits to a live `tf.Graph`: private methods of TensorFlow in one place.

They only take effect in sessions that have not run yet: one that has run silently keeps the old
edges (observed with TensorFlow 1.15.5, 2.15.1 and 2.18.1). That goes for new nodes, too: any thread
that runs or compiles a step hands them to its session as they are. So whoever edits a node that it
has just added does both in one block of `edited`.
"""

from __future__ import annotations

import contextlib
import threading
from typing import AbstractSet, Any, Dict, Iterator, List, Sequence

from graph_opt.compat import tf
from graph_opt.compat.graph_growth import finalize_silently
from graph_opt.compat.graph_lifetime import kept_with

_CLASS = "_class"
_SHAPES = "_output_shapes"
_EXITS = ("Exit", "RefExit")
_TAKEN = "the graph already has a node '{}': it seems to have been rewritten before"


@contextlib.contextmanager
def planned(graph: Any) -> Iterator[None]:
    """Keeps other threads from blocks of `planned`, `edited` and `unfinalized` of this graph."""
    with kept_with(graph, "edits", threading.RLock):
        yield


@contextlib.contextmanager
def edited(graph: Any) -> Iterator[None]:
    """Keeps what is half done from others: what the block does to a graph, they see as one edit.

    Sessions take over no nodes of the graph before its end, and wait if they are to run something.
    So the block must run nothing of the graph itself. Blocks may be nested.
    """
    with planned(graph), graph._mutation_lock():
        yield


@contextlib.contextmanager
def unfinalized(graph: Any) -> Iterator[None]:
    """Like `edited`, for a graph that may be finalized, which it is again at the end."""
    with edited(graph):
        finalized = graph.finalized
        if finalized:
            graph._unsafe_unfinalize()
        try:
            yield
        finally:
            if finalized:
                finalize_silently(graph)


def add_nodes(graph: Any, node_defs: Sequence[Any]) -> List[Any]:
    """Adds nodes to a live graph; their inputs may be among them or already in the graph.

    Args:
      graph: A `tf.Graph` that is not finalized.
      node_defs: NodeDefs in any order, with names that the graph does not have yet.

    Returns:
      The new operations, in the order of `node_defs`.

    Raises:
      RuntimeError: The graph is finalized.
      ValueError: A name is taken, or an input is unknown or has another dtype.
    """
    names = {node.name for node in node_defs}
    graph_def = tf.GraphDef()
    graph_def.versions.CopyFrom(graph.graph_def_versions)
    graph_def.node.extend(_importable(node, names) for node in node_defs)
    outside = {
        text: _tensor(graph, text)
        for node in graph_def.node
        for text in node.input
        if not text.startswith("^") and _node_of(text) not in names
    }
    with edited(graph):
        with graph.as_default(), tf.control_dependencies(None), tf.device(None):
            operations = tf.import_graph_def(
                graph_def,
                input_map=outside,
                return_elements=[node.name for node in node_defs],
                name="",
            )
        for operation, node in zip(operations, node_defs):
            if operation.name != node.name:
                raise ValueError(_TAKEN.format(node.name))
        for node in node_defs:
            _restore(graph, node, names)
    return operations


def _importable(node: Any, names: AbstractSet[str]) -> Any:
    """The node without what import rejects: control inputs and colocation outside of the import."""
    copy = tf.NodeDef()
    copy.CopyFrom(node)
    kept = [text for text in node.input if not text.startswith("^") or text[1:] in names]
    del copy.input[:]
    copy.input.extend(kept)
    for key in (_CLASS, _SHAPES):
        if key in copy.attr:
            del copy.attr[key]
    return copy


def _restore(graph: Any, node: Any, names: AbstractSet[str]) -> None:
    """Restores what `_importable` removed from a node, except for shapes, which are inferred."""
    if _CLASS in node.attr:
        set_attribute(graph, node.name, _CLASS, node.attr[_CLASS])
    controls = [text[1:] for text in node.input if text.startswith("^")]
    add_control_inputs(graph, node.name, [source for source in controls if source not in names])


def set_input(graph: Any, name: str, slot: int, tensor: str) -> None:
    """Makes data input `slot` of node `name` read `tensor` (`node` or `node:index`)."""
    graph.get_operation_by_name(name)._update_input(slot, _tensor(graph, tensor))


def set_control_inputs(graph: Any, name: str, sources: Sequence[str]) -> None:
    """Replaces all control inputs of node `name`."""
    graph.get_operation_by_name(name)._remove_all_control_inputs()
    add_control_inputs(graph, name, sources)


def add_control_inputs(graph: Any, name: str, sources: Sequence[str]) -> None:
    """Adds control inputs to node `name`."""
    operations = [graph.get_operation_by_name(source) for source in sources]
    graph.get_operation_by_name(name)._add_control_inputs(operations)


def set_attribute(graph: Any, name: str, key: str, value: Any) -> None:
    """Sets one attribute (an AttrValue) of a node."""
    graph.get_operation_by_name(name)._set_attr(key, value)


def functions_of(graph: Any) -> Dict[str, Any]:
    """The FunctionDefs of a graph by name."""
    return {each.signature.name: each for each in graph.as_graph_def().library.function}


def is_in_control_flow(operation: Any) -> bool:
    """Whether what an operation yields is in a `tf.cond` or `tf.while_loop` of version 1."""
    context = operation._get_control_flow_context()
    if context is not None and operation.type in _EXITS:
        context = context.outer_context  # Its own is that of the loop which it ends.
    return context is not None


def _node_of(text: str) -> str:
    head, colon, tail = text.rpartition(":")
    return head if colon and tail.isdigit() else text


def _tensor(graph: Any, text: str) -> Any:
    """The tensor that a NodeDef calls `node` or `node:index`."""
    return graph.get_tensor_by_name(text + ":0" if _node_of(text) == text else text)
