"""Names of graphs in their buffers, for releases whose kernels are not told their session's config.

From TensorFlow 2 on, a buffer on a server is known by the name in its session's config
(ops_src/kernels/buffer/session_resources.h). In TensorFlow 1 it is known by its graph: sessions of
two graphs that share a server have buffers of their own, and two sessions of one graph share them.
"""

from __future__ import annotations

import uuid
from typing import Any

from graph_opt.compat.graph_lifetime import kept_with
from graph_opt.compat.operation_marks import has_attribute, mark_once
from graph_opt.compat.version_names import IS_VERSION_1

_OWNER = "_buffer_owner"
_BUFFER_OF_LOOKUP = "_stage_buffer"


def name_buffers_after_graph(graph: Any) -> None:
    """Marks what uses a buffer as part of this graph, where kernels cannot tell sessions apart.

    Args:
      graph: A `tf.Graph`, before a session runs what has been added to it.
    """
    if not IS_VERSION_1:
        return
    name = kept_with(graph, _OWNER, lambda: "graph_opt/" + uuid.uuid4().hex)
    for operation in graph.get_operations():
        is_of_buffer = operation.type.startswith("TensorBuffer")
        if is_of_buffer or has_attribute(operation, _BUFFER_OF_LOOKUP):
            mark_once(operation, _OWNER, name)
