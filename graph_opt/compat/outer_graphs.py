"""The graph that functions, branches and loop bodies are part of."""

from __future__ import annotations

from typing import Any, Optional

from tensorflow.python.framework.func_graph import FuncGraph

from graph_opt.compat import tf


def outermost_graph() -> Optional[Any]:
    """The graph that runs what is built here, however deep in functions, branches and loops.

    Returns:
      The graph of a session; without one, that of the outermost `tf.function` being traced; None
      in eager execution.
    """
    if tf.executing_eagerly():
        return None
    with tf.init_scope():  # leaves functions
        if not tf.executing_eagerly():
            return tf.get_default_graph()
    graph = tf.get_default_graph()
    while isinstance(graph.outer_graph, FuncGraph):
        graph = graph.outer_graph
    return graph
