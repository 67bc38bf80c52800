"""Functions that the graph of a SavedModel calls, as those that TensorFlow 2 and Keras write do.

serving_default_ids ─> StatefulPartitionedCall(signature) ─> outputs
variables ────────────┘
"""

from __future__ import annotations

from typing import Any

from graph_opt.graph.inlined_calls import inline_calls
from graph_opt.saved_models.named_nodes import named_among


def inline_functions(meta_graph: Any) -> int:
    """Puts the bodies of functions where requests, loaders and savers call them.

    What signatures and savers name keeps its name. The description of the model's Python objects,
    whose functions are gone then, is removed.

    Args:
      meta_graph: A MetaGraphDef, which is changed.

    Returns:
      How many calls there were.

    Raises:
      tf.errors.InvalidArgumentError: The graph is not valid.
    """
    nodes = [node.name for node in meta_graph.graph_def.node]
    calls = inline_calls(meta_graph.graph_def, set(named_among(meta_graph, nodes)))
    if calls:
        meta_graph.ClearField("object_graph_def")
    return calls
