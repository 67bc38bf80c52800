"""Nodes that a later release of TensorFlow wrote, as this one would have written them."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import (
    input_dtypes,
    output_dtypes,
    unknown_attributes,
    value_dtype,
)
from graph_opt.graph.view import TensorRef


def has_unknown_attributes(graph_def: Any) -> bool:
    """Whether a graph has nodes with attributes that their ops lack in this release."""
    return any(map(unknown_attributes, graph_def.node))


def drop_unknown_attributes(graph_def: Any) -> None:
    """Makes a graph one that this release imports, to infer its shapes: it need not run.

    Later releases give ops attributes. Where such an attribute is the dtype of an input, as that of
    segment ids, this release takes a single dtype, to which the input is cast.

    Args:
      graph_def: A GraphDef, which is changed.
    """
    later = [node for node in graph_def.node if unknown_attributes(node)]
    for node in later:
        for name in unknown_attributes(node):
            del node.attr[name]
    nodes = {node.name: node for node in graph_def.node}
    casts: List[Any] = []
    for node in later:
        for slot, needed in enumerate(input_dtypes(node) or ()):
            tensor = TensorRef.parse(node.input[slot])
            given = output_dtypes(nodes[tensor.node])
            if given is not None and value_dtype(given[tensor.index]) != value_dtype(needed):
                casts.append(_cast(node, slot, given[tensor.index], needed))
                node.input[slot] = casts[-1].name
    graph_def.node.extend(casts)


def _cast(node: Any, slot: int, given: int, needed: int) -> Any:
    cast = tf.NodeDef(
        name="{}/input_{}".format(node.name, slot), op="Cast", input=[node.input[slot]]
    )
    cast.attr["SrcT"].type = value_dtype(given)
    cast.attr["DstT"].type = value_dtype(needed)
    return cast
