"""Static shapes for graphs from files, which rarely include them."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.inspect.known_ops import with_known_ops
from graph_opt.ops.library import load_library

ATTRIBUTE = "_output_shapes"
_OUR_OPS = ("TensorBuffer", "GroupEmbedding", "ResourceGroupEmbedding")


def with_shapes(graph_def: Any) -> Any:
    """The graph with each node's static shapes in its attribute `_output_shapes`.

    Passes compute the bytes that cross a boundary from them. A graph that already has any, or that
    this TensorFlow cannot import, is returned unchanged. Of ops of libraries that are not loaded,
    Horovod's have shapes, and others, with all that comes after them, have none.

    Args:
      graph_def: A GraphDef; not changed.

    Returns:
      A GraphDef with the same nodes in the same order.
    """
    if any(ATTRIBUTE in node.attr for node in graph_def.node):
        return graph_def
    return with_missing_shapes(graph_def)


def with_missing_shapes(graph_def: Any) -> Any:
    """The graph with static shapes of the nodes that have none, as those that a rewrite adds.

    A graph that this TensorFlow cannot import is returned unchanged.

    Args:
      graph_def: A GraphDef; not changed.
    """
    inferred = _inferred(without_shapes(graph_def))
    if inferred is None:
        return graph_def
    shapes = {node.name: node.attr[ATTRIBUTE] for node in inferred.node if ATTRIBUTE in node.attr}
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if node.name in shapes and ATTRIBUTE not in node.attr:
            node.attr[ATTRIBUTE].CopyFrom(shapes[node.name])
    return result


def without_shapes(graph_def: Any) -> Any:
    """A copy of the graph without the attribute that `with_shapes` adds."""
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if ATTRIBUTE in node.attr:
            del node.attr[ATTRIBUTE]
    return result


def _inferred(graph_def: Any) -> Any:
    """The graph as TensorFlow imports it, with shapes; None if it does not."""
    if any(node.op.startswith(_OUR_OPS) for node in graph_def.node) and not _can_load_ops():
        return None
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(with_known_ops(graph_def), name="")
        except (ValueError, tf.errors.OpError):
            return None
        return graph.as_graph_def(add_shapes=True)


def _can_load_ops() -> bool:
    try:
        load_library()
    except ImportError:
        return False
    return True
