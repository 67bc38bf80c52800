"""What is said of training that a script adds to a graph whose lookups have moved already."""

from __future__ import annotations

_LATE = (
    "graph_opt had moved the graph's lookups before this training was added to it: {}; build all "
    "training (tf.gradients, minimize) before the session's first run"
)
TABLES_LEFT = _LATE.format(
    "tf.gradients gives None for tables whose lookups run ahead of the step, and so the training "
    "leaves these as they are"
)
"""Of gradients that end at the buffer from which main takes rows."""


def no_gradient(operation: str, op_type: str) -> str:
    """Of gradients that meet a node which passes have written behind gradients.

    Args:
      operation: Name of the node.
      op_type: Its op.
    """
    missing = "no gradient is defined for operation '{}' (op type: {})"
    return _LATE.format(missing.format(operation, op_type))
