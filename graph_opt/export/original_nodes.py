"""Nodes of ours inside of the nodes that were exported in their place, to be brought back.

TensorFlow passes over attributes whose names begin with an underscore.
"""

from __future__ import annotations

from typing import Any, List, Set

from graph_opt.compat import tf
from graph_opt.compat.exported_graph import STAND_IN_SCOPE
from graph_opt.graph.undo import node_of_input

_ORIGINAL = "_graph_opt_node"
_HANDLE = "VarHandleOp"


def keep_original(exported: Any, node: Any) -> None:
    """Puts a node into the one that is exported under its name.

    Args:
      exported: The NodeDef that is exported.
      node: The NodeDef as it is; it may be the same one, before it is changed.
    """
    exported.attr[_ORIGINAL].s = node.SerializeToString(deterministic=True)


def bring_back_originals(graph_def: Any) -> bool:
    """Replaces what was exported by the nodes that it stands for, in place.

    Args:
      graph_def: A GraphDef. Where its tables are frozen into constants, nothing is replaced.

    Returns:
      Whether there were any.
    """
    if not any(_ORIGINAL in node.attr for node in graph_def.node):
        return False
    handles = {node.name for node in graph_def.node if node.op == _HANDLE}
    nodes: List[Any] = []
    back: Set[str] = set()
    for node in graph_def.node:
        original = tf.NodeDef.FromString(node.attr[_ORIGINAL].s) if _ORIGINAL in node.attr else None
        if original is None or not _has_handle(original, handles):
            nodes.append(node)
            continue
        original.device = node.device
        nodes.append(original)
        back.add(node.name)
    kept = tf.GraphDef()
    kept.node.extend(node for node in nodes if not _stands_in_for(node.name, back))
    del graph_def.node[:]
    graph_def.node.extend(kept.node)
    return bool(back)


def _stands_in_for(name: str, nodes: Set[str]) -> bool:
    owner, scope, _ = name.partition(STAND_IN_SCOPE)
    return bool(scope) and owner in nodes


def _has_handle(node: Any, handles: Set[str]) -> bool:
    return node.name in handles or any(node_of_input(text) in handles for text in node.input)
