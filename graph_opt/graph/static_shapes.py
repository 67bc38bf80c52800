"""Static shapes of nodes, in which a size may be unknown, and so may the rank."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.graph.view import Shape


def static_shape(proto: Any) -> Shape:
    """The shape that a TensorShapeProto tells."""
    if proto.unknown_rank:
        return None
    sizes = (dimension.size for dimension in proto.dim)
    return tuple(None if size < 0 else int(size) for size in sizes)


def count_elements(sizes: Sequence[Optional[int]]) -> Optional[int]:
    """How many elements these sizes make; None if one of them is unknown.

    Example:
      >>> count_elements([2, 3]), count_elements([2, None])
      (6, None)
    """
    found = 1
    for size in sizes:
        if size is None:
            return None
        found *= size
    return found
