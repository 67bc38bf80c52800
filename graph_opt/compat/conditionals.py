"""How `tf.cond` writes its branches: as functions, or as nodes of the graph.

Relies on the switch of a process that `tf.enable_control_flow_v2` and its opposite turn.
"""

from __future__ import annotations

import contextlib
from typing import Iterator

from graph_opt.compat import tf


@contextlib.contextmanager
def branches_as_nodes() -> Iterator[None]:
    """Writes branches as nodes in this block; those of a function's body, and eager ones, as ever.

    Nodes have the same names in each step; those of functions are named when a step is prepared.
    """
    as_functions = tf.control_flow_v2_enabled() and not tf.executing_eagerly()
    if not as_functions or tf.get_default_graph().building_function:
        yield
        return
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        tf.enable_control_flow_v2()
