"""The node of the user's graph at which an error occurred, where a node of ours names it.

TensorFlow takes `error.op` and `error.node_def` from the first node in an error's message.
"""

from __future__ import annotations

import re
from typing import Any

from graph_opt.compat import tf
from graph_opt.passes.fusion.outcome import LookupNodes
from graph_opt.runtime.error_text import as_in_graph
from graph_opt.session.graph_records import name_map_of
from graph_opt.session.stage_reach import StageReach, is_take
from graph_opt.sharding.step_messages import is_collective

_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# How the kernels of fused lookups say which of their lookups has a bad id.
_LOOKUP = re.compile(r" of lookup (\d+) ")


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
    name = as_in_graph(_users_node(error, found.group(1), graph, reach), graph)
    return message[: found.start(1)] + name + message[found.end(1) :]


def _users_node(error: tf.errors.OpError, node: str, graph: Any, reach: StageReach) -> str:
    name_map = name_map_of(graph)
    lookups = name_map.part(LookupNodes)
    gathers = {} if lookups is None else lookups.gathers
    if node not in gathers:
        substitutes = name_map.substitutes.items()
        replaced = {_node_of(tensor) for tensor, by in substitutes if _node_of(by) == node}
        node = replaced.pop() if len(replaced) == 1 else node
    if node in gathers:
        number = _LOOKUP.search(str(error.message))
        return gathers[node][int(number.group(1))] if number else node
    try:
        operation = graph.get_operation_by_name(node)
    except (KeyError, ValueError):
        return node
    ended = isinstance(error, tf.errors.OutOfRangeError) and is_take(operation)
    return (ended and reach.input_of(operation)) or node


def _node_of(tensor: str) -> str:
    return tensor.rpartition(":")[0]
