"""The node of the user's graph at which an error occurred, where a node of ours names it.

TensorFlow takes `error.op` and `error.node_def` from the first node in an error's message.
"""

from __future__ import annotations

import re
from typing import Any

from graph_opt.compat import tf
from graph_opt.passes.fusion.users_nodes import UsersNodes
from graph_opt.passes.prefetch.choices import CHECK_OF
from graph_opt.runtime.error_text import as_in_graph
from graph_opt.session.graph_records import name_map_of
from graph_opt.session.stage_reach import StageReach, is_take
from graph_opt.sharding.step_messages import is_collective

_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# How the kernels of fused lookups say which of their lookups has a bad id.
_LOOKUP = re.compile(r" of lookup (\d+) ")
_NAMES = re.compile(r"[\w.\\/>-]*\w")


def with_users_node(error: tf.errors.OpError, graph: Any, reach: StageReach) -> str:
    """The error's message, with the user's node in the place of ours where that is known.

    Ranks tell from the node that failed which messages were not sent: they keep it.

    Args:
      error: An error of a step.
      graph: The graph of the session.
      reach: The stages of the graph.
    """
    message = str(error.message)
    found = _NODE.search(message)
    if not found or any(map(is_collective, graph.get_operations())):
        return message
    text = message[: found.start()]
    node = _users_node(text, as_in_graph(found.group(1), graph), graph)
    if isinstance(error, tf.errors.OutOfRangeError):
        node = _input_behind(node, graph, reach)
    return message[: found.start(1)] + as_in_graph(node, graph) + message[found.end(1) :]


def _users_node(text: str, node: str, graph: Any) -> str:
    name_map = name_map_of(graph)
    fused = name_map.part(UsersNodes) or UsersNodes({}, {})
    if node not in fused.of_variables:
        substitutes = name_map.substitutes.items()
        replaced = {_node_of(tensor) for tensor, by in substitutes if _node_of(by) == node}
        node = replaced.pop() if len(replaced) == 1 else node
    number = _LOOKUP.search(text)
    if number and node in fused.gathers:
        return fused.gathers[node][int(number.group(1))]
    of_variables = fused.of_variables.get(node, {})
    named = [of_variables[name] for name in _NAMES.findall(text) if name in of_variables]
    if named or len(set(of_variables.values())) == 1:
        return next(iter(named or of_variables.values()))
    _, _, source = node.rpartition("/{}/".format(CHECK_OF))
    return source or node


def _input_behind(node: str, graph: Any, reach: StageReach) -> str:
    """The input of a stage whose batches a node takes, if it has one; else the node."""
    try:
        operation = graph.get_operation_by_name(node)
    except (KeyError, ValueError):
        return node
    return (is_take(operation) and reach.input_of(operation)) or node


def _node_of(tensor: str) -> str:
    return tensor.rpartition(":")[0]
