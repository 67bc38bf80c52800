"""Static shapes for graphs from files, which rarely include them."""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, Mapping, Tuple

from graph_opt.compat import tf
from graph_opt.compat.inferred_shapes import inferred_shapes
from graph_opt.graph.view import Shape, shape_proto
from graph_opt.inspect.known_ops import with_known_ops
from graph_opt.ops.library import register_ops

ATTRIBUTE = "_output_shapes"
_OUR_OPS = ("TensorBuffer", "GroupEmbedding", "ResourceGroupEmbedding")


def add_shapes(graph_def: Any) -> bool:
    """Gives each node its static shapes, in its attribute `_output_shapes`.

    Passes compute the bytes that cross a boundary from them. A graph that already has any, or that
    this TensorFlow cannot import, is left unchanged. Of ops of libraries that are not loaded,
    Horovod's have shapes, and others, with all that comes after them, have none.

    Args:
      graph_def: A GraphDef, which is changed: copies of a large one take time.

    Returns:
      Whether it had none before.
    """
    if any(ATTRIBUTE in node.attr for node in graph_def.node):
        return False
    add_missing_shapes(graph_def)
    return True


def add_missing_shapes(graph_def: Any) -> None:
    """Gives static shapes to the nodes that have none, as those that a rewrite adds.

    A graph that this TensorFlow cannot import is left unchanged.

    Args:
      graph_def: A GraphDef, which is changed.
    """
    bare = [node for node in graph_def.node if ATTRIBUTE not in node.attr]
    plain = graph_def if len(bare) == len(graph_def.node) else without_shapes(graph_def)
    shapes = _inferred(plain, {node.name for node in bare})
    values: Dict[Tuple[Shape, ...], Any] = {}
    for node in bare:
        outputs = shapes.get(node.name)
        if outputs:
            if outputs not in values:
                protos = [shape_proto(shape) for shape in outputs]
                values[outputs] = tf.AttrValue(list=tf.AttrValue.ListValue(shape=protos))
            node.attr[ATTRIBUTE].CopyFrom(values[outputs])


def without_shapes(graph_def: Any) -> Any:
    """A copy of the graph without the attribute that `add_shapes` adds."""
    result = tf.GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if ATTRIBUTE in node.attr:
            del node.attr[ATTRIBUTE]
    return result


def _inferred(graph_def: Any, names: AbstractSet[str]) -> Mapping[str, Tuple[Shape, ...]]:
    """Shapes of the outputs of these nodes; none if TensorFlow cannot import the graph."""
    if any(node.op.startswith(_OUR_OPS) for node in graph_def.node) and not _can_load_ops():
        return {}
    try:
        return inferred_shapes(with_known_ops(graph_def), names)
    except (ValueError, tf.errors.OpError):
        return {}


def _can_load_ops() -> bool:
    try:
        register_ops()
    except ImportError:
        return False
    return True
