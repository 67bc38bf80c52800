"""Rows clipped to a norm, as `max_norm` asks for.

    rows -> Mul(rows, clip) ------------------------------> RealDiv -> Identity
    rows -> Mul(rows, rows) -> Sum -> ... -> Maximum(norm) --^

Pure: the norm is a constant, so clipping moves along with the rows.
"""

from __future__ import annotations

from typing import Dict, Optional

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup

# Between the rows and the denominator, in either version; Range and Rank where ranks are unknown.
_NORM_OPS = frozenset(
    [
        "Add", "AddV2", "Cast", "Const", "Fill", "Greater", "Maximum", "Mul", "OnesLike", "Range",
        "Rank", "Select", "SelectV2", "Shape", "Sqrt", "Square", "Sub", "Sum",
    ]
)  # fmt: skip
_LARGEST_PATTERN = 40


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The lookup with the clipping of its rows."""
    quotient = _find_quotient(view, lookup.output)
    if quotient is None:
        return None
    last = _identity_behind(view, quotient)
    nodes = _nodes_between(view, lookup.output, last)
    if nodes is None:
        return None
    inner = [lookup.output] + [TensorRef(name, 0) for name in nodes if name != last]
    if not all(forward.stays_inside(tensor, nodes) for tensor in inner):
        return None
    return lookup.grown(last, tuple(nodes), max_norm=True)


def _find_quotient(view: GraphView, rows: TensorRef) -> Optional[str]:
    """The RealDiv of (rows * clip) by a Maximum."""
    for use in view.uses(rows):
        if view.op(use.consumer) != "Mul":
            continue
        for product_use in view.uses(TensorRef(use.consumer, 0)):
            name = product_use.consumer
            if view.op(name) == "RealDiv" and product_use.slot == 0:
                if view.op(view.inputs(name)[1].node) == "Maximum":
                    return name
    return None


def _identity_behind(view: GraphView, name: str) -> str:
    """The Identity that gives a clipped tensor its name, if there."""
    for use in view.uses(TensorRef(name, 0)):
        if view.op(use.consumer) == "Identity" and not view.controls(use.consumer):
            return use.consumer
    return name


def _nodes_between(view: GraphView, rows: TensorRef, last: str) -> Optional[Dict[str, None]]:
    """What `last` computes from nothing but the rows and constants; None where it takes more."""
    nodes: Dict[str, None] = {last: None}
    stack = [last]
    reaches_rows = False
    while stack:
        name = stack.pop()
        for tensor in view.inputs(name):
            if tensor == rows:
                reaches_rows = True
                continue
            if tensor.node in nodes:
                continue
            if view.op(tensor.node) not in _NORM_OPS and view.op(tensor.node) != "RealDiv":
                return None
            nodes[tensor.node] = None
            stack.append(tensor.node)
            if len(nodes) > _LARGEST_PATTERN:
                return None
    return nodes if reaches_rows else None
