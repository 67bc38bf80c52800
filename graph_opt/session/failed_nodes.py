"""The node of the user's graph at which an error occurred, where a node of ours names it.

TensorFlow takes `error.op` and `error.node_def` from the first node in an error's message.
"""

from __future__ import annotations

import re
from typing import Any, Optional

from graph_opt.compat import tf
from graph_opt.compat.step_calls import failed_node, own_message
from graph_opt.passes.fusion.users_nodes import UsersNodes
from graph_opt.passes.prefetch.choices import CHECK_OF
from graph_opt.passes.stock_copy import SCOPE
from graph_opt.runtime.error_text import as_in_graph
from graph_opt.session.graph_records import name_map_of
from graph_opt.session.stage_reach import StageReach, is_take
from graph_opt.sharding.step_messages import is_collective

_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# How the kernels of fused lookups say which of their lookups has a bad id.
_LOOKUP = re.compile(r" of lookup (\d+) ")
_COPIES = SCOPE + "/"  # of what a step runs as it was built
_NAMES = re.compile(r"[\w.\\/>-]*\w")


def with_users_node(error: tf.errors.OpError, graph: Any, reach: StageReach) -> str:
    """The error's message, with the user's node in the place of ours where that is known.

    Ranks tell from the node that failed which messages were not sent: `told_to_ranks` comes later.

    Args:
      error: An error of a step.
      graph: The graph of the session.
      reach: The stages of the graph.
    """
    message = str(error.message)
    found = _NODE.search(message)
    if not found or _sends_messages(graph):
        return message
    node = _replaced(error, message[: found.start()], found.group(1), graph, reach)
    return message[: found.start(1)] + node + message[found.end(1) :]


def told_to_ranks(error: tf.errors.OpError, graph: Any, reach: StageReach) -> Optional[str]:
    """The message of an error of a rank, with the user's node in the place of ours.

    Args:
      error: The error of a step, once ranks know of it.
      graph: The graph of the session.
      reach: The stages of the graph.

    Returns:
      None if the error names no node, or the user's.
    """
    failed = failed_node(error)
    if not failed or not _sends_messages(graph):
        return None
    text = own_message(error)
    node = _replaced(error, text, failed, graph, reach)
    return None if node == failed else "{}\n\t [[{{{{node {}}}}}]]".format(text, node)


def _replaced(
    error: tf.errors.OpError, text: str, failed: str, graph: Any, reach: StageReach
) -> str:
    node = as_in_graph(failed, graph)
    node = _users_node(text, node[len(_COPIES) :] if node.startswith(_COPIES) else node, graph)
    if isinstance(error, tf.errors.OutOfRangeError):
        node = _input_behind(node, graph, reach)
    return as_in_graph(node, graph)


def _sends_messages(graph: Any) -> bool:
    return any(map(is_collective, graph.get_operations()))


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
