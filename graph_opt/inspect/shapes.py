"""Static shapes for graphs from files, which rarely include them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.inferred_shapes import inferred_shapes
from graph_opt.graph.view import Shape, shape_proto
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
    shapes = _inferred(without_shapes(graph_def))
    if shapes is None:
        return graph_def
    protos: Dict[Shape, Any] = {}
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        outputs = shapes.get(node.name)
        if outputs and ATTRIBUTE not in node.attr:
            written = node.attr[ATTRIBUTE].list.shape
            for shape in outputs:
                if shape not in protos:
                    protos[shape] = shape_proto(shape)
                written.append(protos[shape])
    return result


def without_shapes(graph_def: Any) -> Any:
    """A copy of the graph without the attribute that `with_shapes` adds."""
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if ATTRIBUTE in node.attr:
            del node.attr[ATTRIBUTE]
    return result


def _inferred(graph_def: Any) -> Optional[Dict[str, List[Shape]]]:
    """Shapes of each node's outputs; None if TensorFlow cannot import the graph."""
    if any(node.op.startswith(_OUR_OPS) for node in graph_def.node) and not _can_load_ops():
        return None
    try:
        return inferred_shapes(with_known_ops(graph_def))
    except (ValueError, tf.errors.OpError):
        return None


def _can_load_ops() -> bool:
    try:
        load_library()
    except ImportError:
        return False
    return True
