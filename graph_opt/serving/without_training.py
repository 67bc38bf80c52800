"""A graph that serves without what trains it, as a session that trained exports both."""

from __future__ import annotations

from typing import Any, List

from graph_opt.compat import tf
from graph_opt.compat.saved_models import nodes_of_variable
from graph_opt.compat.variable_ops import TAKES_GRADIENTS, UPDATES, is_use
from graph_opt.graph.view import GraphView
from graph_opt.saved_models.named_nodes import (
    VARIABLES,
    fetched_names,
    forget_contexts,
    forget_nodes,
    keep_names,
    node_of,
)

_INITIALIZERS = tf.GraphKeys.TABLE_INITIALIZERS
_TRAINS = TAKES_GRADIENTS | UPDATES


def leave_out_training(meta_graph: Any) -> None:
    """Removes all but what requests, loaders and savers run, if the graph trains.

    Fused updates need ops that servers do not have, and lookups of tables with such an update
    would wait for rows to be caught up.

    Args:
      meta_graph: A MetaGraphDef, which is changed.
    """
    view = GraphView(meta_graph.graph_def)
    kept = view.ancestors(name for name in map(node_of, _run(meta_graph)) if name in view)
    removed = set(view.nodes).difference(kept)
    if not any(is_use(view.op(name), _TRAINS) for name in removed):
        return
    nodes = [tf.NodeDef.FromString(view.nodes[name].SerializeToString()) for name in kept]
    order = {name: place for place, name in enumerate(view.nodes)}
    nodes.sort(key=lambda node: order[node.name])
    for node in nodes:
        forget_nodes(node, removed)
    del meta_graph.graph_def.node[:]
    meta_graph.graph_def.node.extend(nodes)
    keep_names(meta_graph, set(kept))
    forget_contexts(meta_graph)


def _run(meta_graph: Any) -> List[str]:
    """The tensors and nodes that are run, or named where something is."""
    saver = meta_graph.saver_def
    names = [saver.filename_tensor_name, saver.save_tensor_name, saver.restore_op_name]
    names += fetched_names(meta_graph)
    collections = meta_graph.collection_def
    if _INITIALIZERS in collections:
        names += collections[_INITIALIZERS].node_list.value
    for key in set(VARIABLES).intersection(collections):
        for tensors in nodes_of_variable(collections[key].bytes_list.value):
            names += tensors
    return names
