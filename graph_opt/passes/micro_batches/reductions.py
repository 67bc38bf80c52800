"""Ops that sum over rows, or over anything else."""

from __future__ import annotations

from typing import Dict, List

from graph_opt.passes.micro_batches.call import Call
from graph_opt.passes.micro_batches.elementwise import Rule
from graph_opt.passes.micro_batches.values import Value


def reduction(call: Call) -> List[Value]:
    """Along the axes of the second input."""
    if call.total(0) and call.op in ("Sum", "Mean"):
        call.share(1)
        return [Value(total=True)]
    rows, rank = call.rows_along(0), call.rank(0)
    axes = {axis % rank for axis in call.integers(1)}
    call.share(1)
    if rows.axis in axes:
        return over_rows(call)
    before = sum(axis < rows.axis for axis in axes)
    kept = call.integer("keep_dims")
    return [Value(rows=rows if kept else rows._replace(axis=rows.axis - before))]


def over_rows(call: Call) -> List[Value]:
    """Sums add up; means do so in proportion to the numbers of rows."""
    if call.op == "Mean" and call.dtype(0).is_floating:
        call.weighted = call.rows_along(0)
    elif call.op != "Sum":
        raise call.refusal("{} over the rows of the batch".format(call.op))
    return [Value(total=True)]


def whole(call: Call) -> List[Value]:
    """Of all elements."""
    call.rows_along(0)
    return [Value(total=True)]


def bias_gradient(call: Call) -> List[Value]:
    """Over all axes but that of the channels."""
    rows, rank = call.rows_along(0), call.rank(0)
    layout = call.view.attribute(call.name, "data_format")
    channels = 1 if layout is not None and layout.s == b"NCHW" else rank - 1
    return [Value(rows=rows._replace(axis=0)) if rows.axis == channels else Value(total=True)]


def place_of_largest(call: Call) -> List[Value]:
    """Along one axis."""
    rows = call.rows_along(0)
    axis = call.axis(1, call.rank(0))
    call.share(1)
    if axis == rows.axis:
        raise call.refusal("{} over the rows of the batch".format(call.op))
    return [Value(rows=rows._replace(axis=rows.axis - (axis < rows.axis)))]


REDUCTIONS = frozenset(["Sum", "Mean", "Max", "Min", "Prod", "Any", "All"])
RULES: Dict[str, Rule] = {
    **{op: reduction for op in REDUCTIONS},
    "L2Loss": whole,
    "BiasAddGrad": bias_gradient,
    "ArgMax": place_of_largest,
    "ArgMin": place_of_largest,
}
