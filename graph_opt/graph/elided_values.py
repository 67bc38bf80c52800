"""Nodes whose values were left out of a graph file, or of what was read of one."""

from __future__ import annotations

from typing import Any

ELIDED = "_elided_bytes"
"""Attribute of such a node: how many bytes it had."""
ELIDED_DIGEST = "_elided_sha256"
"""Attribute with their SHA-256, by which they can be compared."""


def is_elided(node: Any) -> bool:
    """Whether a NodeDef has lost values: a constant then has only dtype and shape."""
    return ELIDED in node.attr
