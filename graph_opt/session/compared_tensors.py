"""Tensors that a graph has twice, rewritten and as its user built it."""

from __future__ import annotations

from typing import Any, NamedTuple

from graph_opt.compat.graph_growth import is_reference
from graph_opt.compat.live_graph import is_in_control_flow


class Pair(NamedTuple):
    """A tensor that both graphs compute.

    Attributes:
      name: Its name in the user's graph.
      main: What computes it in the rewritten graph.
      stock: What computes it as its user built it.
    """

    name: str
    main: Any
    stock: Any


def can_compare(one: Any, other: Any) -> bool:
    """Whether both tensors are numbers that can be fetched."""
    dtype = one.dtype
    if not (dtype.is_floating or dtype.is_integer or dtype.is_bool):
        return False
    if is_reference(one) or is_reference(other):
        return False
    return not (is_in_control_flow(one.op) or is_in_control_flow(other.op))
