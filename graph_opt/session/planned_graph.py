"""The GraphDef of a live graph, as passes need it to plan.

TensorFlow serializes a graph to hand it out, which ends at protobuf's 2 GiB, while sessions run
larger ones: the tables of a frozen graph, say. Of such a graph the values of large constants are
left out. Passes know what is left out, and look at dtypes and shapes alone.
"""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import add_functions, running_graph_def
from graph_opt.graph.elided_values import ELIDED
from graph_opt.graph.rewrite import OUTPUT_SHAPES

_LARGE_BYTES = 1 << 20
_MOST_BYTES = 3 << 29  # of large constants; the rest of the graph is less than 512 MiB


def planned_graph_def(graph: Any, most_bytes: int = _MOST_BYTES) -> Any:
    """The graph as sessions run it, with static shapes.

    Args:
      graph: A `tf.Graph`.
      most_bytes: With more bytes of large constants than that, these are without their values.

    Example:
      >>> view = GraphView(planned_graph_def(tf.get_default_graph()))
    """
    operations = graph.get_operations()
    large = {operation.name: _constant_bytes(operation) for operation in operations}
    large = {name: size for name, size in large.items() if size > _LARGE_BYTES}
    if sum(large.values()) <= most_bytes:
        return running_graph_def(graph, add_shapes=True)
    graph_def = tf.GraphDef()
    graph_def.versions.CopyFrom(graph.graph_def_versions)
    for operation in operations:
        if operation.name in large:
            node = _without_value(operation, large[operation.name])
        else:
            node = operation.node_def
        if operation.outputs:
            shapes = [output.shape.as_proto() for output in operation.outputs]
            node.attr[OUTPUT_SHAPES].list.shape.extend(shapes)
        graph_def.node.add().CopyFrom(node)
    add_functions(graph, graph_def)
    return graph_def


def _constant_bytes(operation: Any) -> int:
    """Bytes of a constant of numbers; 0 of any other operation."""
    if operation.type != "Const":
        return 0
    tensor = operation.outputs[0]
    return int((tensor.shape.num_elements() or 0) * (tensor.dtype.size or 0))


def _without_value(operation: Any, size: int) -> Any:
    tensor = operation.outputs[0]
    node = tf.NodeDef(name=operation.name, op=operation.type, device=operation.device)
    node.input.extend("^" + control.name for control in operation.control_inputs)
    node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    node.attr["value"].tensor.dtype = tensor.dtype.as_datatype_enum
    node.attr["value"].tensor.tensor_shape.CopyFrom(tensor.shape.as_proto())
    node.attr[ELIDED].i = size
    return node
