"""Marks outputs of lookups that the passes do not recognise by themselves."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import live_graph, tf
from graph_opt.ops.stage_spec import TARGET_MARK
from graph_opt.reporting.warnings_given import warn_once

MARK = "_async_embedding_marked"
MARKED_OUTPUTS = "_async_embedding_marked_outputs"


def async_embedding_mark_node(tensor: Any) -> Any:
    """Marks a tensor as the output of an embedding lookup, to be computed ahead of main.

    The mark is two attributes of the tensor's operation, `_async_embedding_marked` (bool) and
    `_async_embedding_marked_outputs` (output indices), so it travels with the GraphDef.

    Args:
      tensor: A `tf.Tensor` of the graph, usually [B, D].

    Returns:
      The same tensor.

    Raises:
      tf.errors.InvalidArgumentError: It is not a tensor of a graph.

    Example:
      >>> rows = graph_opt.async_embedding_mark_node(my_lookup(table, ids))
    """
    if not isinstance(tensor, tf.Tensor) or not hasattr(tensor, "graph"):
        raise tf.errors.InvalidArgumentError(
            None,
            None,
            "async_embedding_mark_node: need a tf.Tensor of the graph, got a {}; mark each dense "
            "output of the lookup".format(type(tensor).__name__),
        )
    operation = tensor.op
    outputs = sorted(set(_marked_outputs(operation)) | {tensor.value_index})
    live_graph.set_attribute(operation.graph, operation.name, MARK, tf.AttrValue(b=True))
    listed = tf.AttrValue(list=tf.AttrValue.ListValue(i=outputs))
    live_graph.set_attribute(operation.graph, operation.name, MARKED_OUTPUTS, listed)
    return tensor


def mark_target_node(target_nodes: Any) -> None:
    """DeepRec's `tf.train.mark_target_node`: smart stages end before these nodes.

    The mark is an attribute of each operation, `_smart_stage_target` (bool). DeepRec keeps the
    names in the environment, for all graphs of the process.

    Args:
      target_nodes: Tensors, operations or variables, in lists or dicts. Of others, a warning tells.

    Example:
      >>> tf.train.mark_target_node([parsed["price"], {"label": label}])
    """
    others = set()
    for node in tf.nest.flatten(target_nodes):
        if isinstance(node, (tf.Tensor, tf.Variable)):
            node = node.op
        if isinstance(node, tf.Operation):
            mark = tf.AttrValue(b=True)
            live_graph.set_attribute(node.graph, node.name, TARGET_MARK, mark)
        else:
            others.add(type(node).__name__)
    if others:
        warn_once(
            "tf.train.mark_target_node takes tensors, operations and variables, not "
            + ", ".join(sorted(others))
        )


def _marked_outputs(operation: Any) -> List[int]:
    attributes = operation.node_def.attr
    return list(attributes[MARKED_OUTPUTS].list.i) if MARKED_OUTPUTS in attributes else []
