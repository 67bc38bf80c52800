"""Matrix products and convolutions: of rows and weights, or, in gradients, of rows and rows."""

from __future__ import annotations

from typing import Dict, List, Tuple

from graph_opt.passes.micro_batches.call import Call
from graph_opt.passes.micro_batches.elementwise import Rule
from graph_opt.passes.micro_batches.values import Rows, Value


def matrix_product(call: Call) -> List[Value]:
    """`MatMul` and, with more axes before the last two, `BatchMatMul`."""
    keys = ("transpose_a", "transpose_b") if call.op == "MatMul" else ("adj_x", "adj_y")
    flipped = [bool(call.integer(key)) for key in keys]
    ranks = [call.rank(0), call.rank(1)]
    # The axis of each operand that is summed over, and the other one, counted backward.
    summed = [-2 if flipped[0] else -1, -1 if flipped[1] else -2]
    kept = [-3 - summed[0], -3 - summed[1]]
    rank = max(ranks)
    places = [
        None if rows is None else rows.axis - size
        for rows, size in zip((call.rows(0), call.rows(1)), ranks)
    ]
    if places[0] == summed[0] and places[1] == summed[1]:
        return _over_rows(call)
    for slot, to in ((0, -2), (1, -1)):
        if places[slot] == kept[slot]:
            call.share(1 - slot)
            return [Value(rows=call.rows_along(slot)._replace(axis=rank + to))]
    if any(place is not None and place >= -2 for place in places):
        raise call.refusal("a product over the rows of the batch")
    rows = call.align([0, 1])
    return [Value(rows=rows._replace(axis=rows.axis + rank))]


def _over_rows(call: Call) -> List[Value]:
    left, right = call.rows_along(0), call.rows_along(1)
    if not left.alike(right):
        raise call.refusal("different numbers of rows")
    return [Value(total=True)]


def einsum(call: Call) -> List[Value]:
    """One or two operands, without ellipses."""
    equation = call.view.nodes[call.name].attr["equation"].s.decode().replace(" ", "")
    terms, _, result = equation.partition("->")
    operands = terms.split(",")
    if "." in equation or len(operands) != len(call.values) or len(set(result)) < len(result):
        raise call.refusal("the equation " + equation)
    labels = {
        operands[slot][rows.axis]: rows
        for slot, rows in ((slot, call.rows(slot)) for slot in range(len(operands)))
        if rows is not None
    }
    if len(labels) != 1:
        raise call.refusal("rows along different axes of " + equation)
    label, rows = labels.popitem()
    for slot, term in enumerate(operands):
        if label not in term:
            call.share(slot)
        elif term.count(label) > 1:
            raise call.refusal("the equation " + equation)
        else:
            _take_part(call, slot, rows._replace(axis=term.index(label)))
    if label in result:
        return [Value(rows=rows._replace(axis=result.index(label)))]
    return [Value(total=True)]


def _take_part(call: Call, slot: int, rows: Rows) -> None:
    own = call.rows(slot)
    if own is None and call.shape(slot)[rows.axis] == rows.length is not None:
        call.divide(slot, rows)
    elif own is None or not own.alike(rows):
        raise call.refusal("different numbers of rows")


def bias(call: Call) -> List[Value]:
    """A vector that is added along the last axis."""
    rows = call.rows_along(0)
    layout = call.view.attribute(call.name, "data_format")
    channels = 1 if layout is not None and layout.s == b"NCHW" else call.rank(0) - 1
    if rows.axis == channels:
        raise call.refusal("a bias for each row")
    call.share(1)
    return [Value(rows=rows)]


def images(call: Call) -> List[Value]:
    """Filters and pools over images [rows, ...]."""
    call.require_shared(range(1, len(call.values)))
    return [Value(rows=_first_axis(call, 0))]


def image_gradients(call: Call) -> List[Value]:
    """All inputs have the same rows: those of gradients, and what they are gradients of."""
    found = [_first_axis(call, slot) for slot in range(len(call.values))]
    _require_alike(call, found)
    return [Value(rows=found[0])]


def input_gradient(call: Call) -> List[Value]:
    """Of a convolution, with respect to the images: their shape, filters, gradient."""
    rows = _first_axis(call, 2)
    call.share(1)
    if not call.counts(0, 0, rows):
        raise call.refusal("images with other rows")
    return [Value(rows=rows)]


def filter_gradient(call: Call) -> List[Value]:
    """The same with respect to the filters: images, shape of the filters, gradient."""
    call.share(1)
    _require_alike(call, [_first_axis(call, 0), _first_axis(call, 2)])
    return [Value(total=True)]


def pool_gradient(call: Call) -> List[Value]:
    """Of `AvgPool`: the shape of the images, gradient."""
    rows = _first_axis(call, 1)
    if not call.counts(0, 0, rows):
        raise call.refusal("images with other rows")
    return [Value(rows=rows)]


def _first_axis(call: Call, slot: int) -> Rows:
    rows = call.rows_along(slot)
    if rows.axis:
        raise call.refusal("rows along another axis than the first")
    return rows


def _require_alike(call: Call, found: List[Rows]) -> None:
    for other in found[1:]:
        if not other.alike(found[0]):
            raise call.refusal("different numbers of rows")


_IMAGES: Tuple[str, ...] = ("Conv2D", "DepthwiseConv2dNative", "MaxPool", "AvgPool")
RULES: Dict[str, Rule] = {
    **{op: matrix_product for op in ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")},
    **{op: images for op in _IMAGES},
    **{op: input_gradient for op in ("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput")},
    **{
        op: filter_gradient
        for op in ("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter")
    },
    "Einsum": einsum,
    "BiasAdd": bias,
    "MaxPoolGrad": image_gradients,
    "AvgPoolGrad": pool_gradient,
}
