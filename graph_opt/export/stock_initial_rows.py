"""Replaces the op that draws the first rows of sharded tables with TensorFlow's random numbers.

They have the same distribution, and are other numbers. A process that restores a checkpoint draws
none, but its graph must load.
"""

from __future__ import annotations

from typing import Any, Dict, List

from graph_opt.compat import tf
from graph_opt.export.stock_nodes import nodes_in_place_of

_OP = "GroupEmbeddingInitialRows"


def stock_initial_rows(graph_def: Any, graph: Any, made: Dict[bytes, List[Any]]) -> None:
    """Replaces the nodes of a GraphDef, in place.

    Args:
      graph_def: The GraphDef.
      graph: Its live graph.
      made: Nodes made before, by the node that they replace.
    """
    if not any(node.op == _OP for node in graph_def.node):
        return
    nodes: List[Any] = []
    for node in graph_def.node:
        if node.op != _OP:
            nodes.append(node)
            continue
        key = node.SerializeToString(deterministic=True)
        if key not in made:
            made[key] = _drawn(node, graph)
        nodes.extend(made[key])
    replaced = tf.GraphDef()
    replaced.node.extend(nodes)
    del graph_def.node[:]
    graph_def.node.extend(replaced.node)


def _drawn(node: Any, graph: Any) -> List[Any]:
    attributes = node.attr
    distribution = attributes["distribution"].s.decode("utf-8")
    first, second = attributes["first"].f, attributes["second"].f
    seed = [attributes["key"].i, attributes["column"].i]

    def build(inputs: List[Any]) -> List[Any]:
        shape = [tf.size(inputs[0]), attributes["width"].i]
        if distribution == "uniform":
            return [tf.random.stateless_uniform(shape, seed, first, second)]
        draw = (
            tf.random.stateless_normal
            if distribution == "normal"
            else tf.random.stateless_truncated_normal
        )
        return [draw(shape, seed, first, second)]

    return nodes_in_place_of(node, graph, build, in_frame=False)
