"""Ops that move, cut, join and repeat: where their results have the rows."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.graph.refusal import Refusal
from graph_opt.passes.micro_batches.call import Call
from graph_opt.passes.micro_batches.elementwise import Rule, elementwise, of_totals
from graph_opt.passes.micro_batches.shape_numbers import NotKnown, strided_places
from graph_opt.passes.micro_batches.values import Count, Rows, Value


def reshape(call: Call) -> List[Value]:
    """Rows stay together as long as the axes before them do."""
    if call.total(0):
        call.share(1)
        return [Value(total=True)]
    target = list(call.numbers(1).reshape(-1))
    rows, shape = call.rows_along(0), call.shape(0)
    axis = rows.axis
    if list(shape[:axis]) != target[:axis] or None in target[:axis] or len(target) <= axis:
        raise call.refusal("a Reshape of what stands before the rows")
    if target[axis] == -1:
        times = _multiple(rows.times, shape[axis + 1 :], target[axis + 1 :])
    else:
        count = call.count(1, axis, rows)
        times = count.times if count is not None else 0
    if times == 0:
        raise call.refusal("a Reshape that does not keep rows together")
    return [Value(rows=rows._replace(times=times))]


def _multiple(times: Optional[int], inner: Sequence[Any], wanted: Sequence[Any]) -> Optional[int]:
    """How long the axis of the rows is for each of them after a Reshape that gives it as -1.

    Whatever the sizes, the parts of micro-batches lie one after the other in the result; parts that
    do not fill whole elements fail.

    Returns:
      None if it is not known, 0 if parts may be no whole elements.
    """
    sizes = (times, *inner)
    known = [size for size in sizes if isinstance(size, int)]
    divided_by = [size for size in wanted if isinstance(size, int)]
    if any(size <= 0 for size in divided_by):
        return 0
    found, rest = divmod(int(np.prod(known)), int(np.prod(divided_by)))
    if rest:
        return 0
    return found if len(known) == len(sizes) and len(divided_by) == len(wanted) else None


def expand(call: Call) -> List[Value]:
    """A new axis of size 1."""
    if call.total(0):
        return of_one_total(call)
    rows, axis = call.rows_along(0), call.axis(1, call.rank(0) + 1)
    call.share(1)
    return [Value(rows=rows._replace(axis=rows.axis + (axis <= rows.axis)))]


def of_one_total(call: Call) -> List[Value]:
    """The first input is a sum over the batch, and the others say where its elements go."""
    call.require_shared(range(1, len(call.values)))
    return [Value(total=True)]


def squeeze(call: Call) -> List[Value]:
    """Without axes of size 1."""
    if call.total(0):
        return [Value(total=True)]
    rows, rank = call.rows_along(0), call.rank(0)
    listed = call.view.attribute(call.name, "squeeze_dims")
    axes = {int(axis) % rank for axis in (listed.list.i if listed is not None else ())}
    if not axes or rows.axis in axes:
        raise call.refusal("a Squeeze of an axis that may be the rows'")
    return [Value(rows=rows._replace(axis=rows.axis - sum(axis < rows.axis for axis in axes)))]


def transpose(call: Call) -> List[Value]:
    """Axes in another order."""
    if call.total(0):
        return of_one_total(call)
    rows, order = call.rows_along(0), call.integers(1)
    call.share(1)
    return [Value(rows=rows._replace(axis=order.index(rows.axis)))]


def pack(call: Call) -> List[Value]:
    """Along a new axis."""
    rank = call.rank(0)
    rows = call.align(range(len(call.values)))
    rows = rows._replace(axis=rows.axis + rank)
    _require_no_broadcast(call, range(len(call.values)))
    axis = call.integer("axis") % (rank + 1)
    return [Value(rows=rows._replace(axis=rows.axis + (axis <= rows.axis)))]


def unpack(call: Call) -> List[Value]:
    """The parts along an axis."""
    rows, axis = call.rows_along(0), call.integer("axis") % call.rank(0)
    if axis == rows.axis:
        raise call.refusal("Unpack of the rows of the batch")
    found = Value(rows=rows._replace(axis=rows.axis - (axis < rows.axis)))
    return [found] * call.integer("num")


def concatenate(call: Call) -> List[Value]:
    """Along an axis that is not the rows'."""
    slots = range(len(call.values) - 1)
    rank = call.rank(0)
    axis = call.axis(len(slots), rank)
    call.share(len(slots))
    rows = call.align(slots)
    rows = rows._replace(axis=rows.axis + rank)
    _require_no_broadcast(call, slots)
    if axis == rows.axis:
        raise call.refusal("a concatenation of rows")
    return [Value(rows=rows)]


def _require_no_broadcast(call: Call, slots: Sequence[int]) -> None:
    """Refuses inputs of which all copies would read the same."""
    if any(call.uses[slot].kind == "whole" for slot in slots):
        raise call.refusal("rows beside what has none")


def split(call: Call) -> List[Value]:
    """`Split` (axis, tensor) and `SplitV` (tensor, sizes, axis)."""
    place, axis = (1, 0) if call.op == "Split" else (0, 2)
    rows = call.rows_along(place)
    if call.axis(axis, call.rank(place)) == rows.axis:
        raise call.refusal("{} of the rows of the batch".format(call.op))
    call.require_shared(slot for slot in range(len(call.values)) if slot != place)
    return [Value(rows=rows)] * call.integer("num_split")


def cut(call: Call) -> List[Value]:
    """`Slice`: begins, sizes."""
    rows = call.rows_along(0)
    begin, size = call.numbers(1)[rows.axis], call.numbers(2)[rows.axis]
    if begin != 0 or (size != -1 and not call.counts(2, rows.axis, rows)):
        raise call.refusal("some of the rows of the batch")
    _share_unless_used(call, 1)
    _share_unless_used(call, 2)
    return [Value(rows=rows)]


def _share_unless_used(call: Call, slot: int) -> None:
    if call.uses[slot].kind == "copy" and call.values[slot].shared:
        call.share(slot)


def strided_slice(call: Call) -> List[Value]:
    """All rows, in their order; other axes may be cut, dropped and added."""
    rows, rank = call.rows_along(0), call.rank(0)
    call.require_shared([1, 2, 3])
    axis = _axis_after(call, rank, rows.axis, [call.numbers(slot) for slot in (1, 2, 3)])
    return [Value(rows=rows._replace(axis=axis))]


def strided_slice_gradient(call: Call) -> List[Value]:
    """The shape of what was cut; begins, ends and strides; the gradient."""
    rows = call.rows_along(4)
    call.require_shared([1, 2, 3])
    shape = list(call.numbers(0).reshape(-1))
    bounds = [call.numbers(slot) for slot in (1, 2, 3)]
    for axis in range(len(shape)):
        try:
            found = _axis_after(call, len(shape), axis, bounds)
        except Refusal:
            continue
        if found == rows.axis and call.counts(0, axis, rows):
            return [Value(rows=rows._replace(axis=axis))]
    raise call.refusal("some of the rows of the batch")


def _axis_after(call: Call, rank: int, axis: int, bounds: Sequence[Any]) -> int:
    """Where an axis is after a StridedSlice that takes all of it.

    Raises:
      Refusal: It takes only some of it.
    """
    try:
        places = list(strided_places(bounds, lambda key: call.view.attribute(call.name, key)))
    except NotKnown:
        raise call.refusal("places that each step computes") from None
    given = sum(place is not None and place is not Ellipsis for place in places)
    fill = [slice(None)] * (rank - given)
    at = places.index(Ellipsis) if Ellipsis in places else len(places)
    places[at : at + (Ellipsis in places)] = fill
    source, result = 0, 0
    for place in places:
        if place is None:
            result += 1
            continue
        if source == axis:
            if place not in (slice(None), slice(None, None, 1), slice(0, None, 1)):
                raise call.refusal("some of the rows of the batch")
            return result
        source += 1
        result += not isinstance(place, int)
    raise call.refusal("some of the rows of the batch")


def pad(call: Call) -> List[Value]:
    """Around other axes than the rows'."""
    rows = call.rows_along(0)
    if list(call.numbers(1)[rows.axis]) != [0, 0]:
        raise call.refusal("more rows than the batch has")
    for slot in range(1, len(call.values)):
        _share_unless_used(call, slot)
    return [Value(rows=rows)]


def tile(call: Call) -> List[Value]:
    """Repeats other axes than the rows', or one row as often as the batch has rows."""
    multiples = list(call.numbers(1).reshape(-1))
    if call.rows(0) is not None:
        rows = call.rows_along(0)
        if multiples[rows.axis] != 1:
            raise call.refusal("the batch repeated")
        return [Value(rows=rows)]
    return _repeated(call, 0, 1, multiples, call.shape(0))


def broadcast(call: Call) -> List[Value]:
    """To a shape: what has rows already, or what is the same for all of them."""
    target = list(call.numbers(1).reshape(-1))
    shape = call.shape(0)
    if call.rows(0) is None:
        padded = (1,) * (len(target) - len(shape)) + shape
        return _repeated(call, 0, 1, target, padded)
    rows = call.rows_along(0)
    axis = rows.axis + len(target) - len(shape)
    if not call.counts(1, axis, rows):
        raise call.refusal("more rows than the batch has")
    return [Value(rows=rows._replace(axis=axis))]


def fill(call: Call) -> List[Value]:
    """One value in a shape."""
    target = list(call.numbers(0).reshape(-1))
    return _repeated(call, 1, 0, target, [1] * len(target))


def _repeated(
    call: Call, slot: int, sizes: int, target: Sequence[Any], shape: Sequence[Any]
) -> List[Value]:
    """What becomes of a tensor without rows, of this shape, along axes that are repeated."""
    counts = [axis for axis, size in enumerate(target) if isinstance(size, Count)]
    if len(counts) != 1 or shape[counts[0]] != 1:
        raise call.refusal("a shape with several numbers of rows, or with multiples of them")
    call.share(slot)
    count = target[counts[0]]
    return [Value(rows=Rows(counts[0], count.rows, count.times))]


def gather(call: Call) -> List[Value]:
    """From rows, at the same places in all of them; or at places that each row has."""
    axis = call.axis(2, call.rank(0)) if len(call.values) > 2 else 0
    if call.integer("batch_dims"):
        raise call.refusal("batch_dims")
    call.require_shared(range(2, len(call.values)))
    places = call.rows(1)
    if call.rows(0) is None and places is not None:
        call.share(0)
        return [Value(rows=places._replace(axis=axis + places.axis))]
    rows = call.rows_along(0)
    call.share(1)
    if axis == rows.axis:
        raise call.refusal("places in the rows of the batch")
    more = call.rank(1) - 1 if axis < rows.axis else 0
    return [Value(rows=rows._replace(axis=rows.axis + more))]


def segment_sum(call: Call) -> List[Value]:
    """Of slices, at places that are the same for all rows, or that each row has."""
    call.share(2)
    rows, ids = call.rows_along(0), call.rows(1)
    rank = call.rank(1)
    if ids is None and rows.axis >= rank:
        call.share(1)
        return [Value(rows=rows._replace(axis=rows.axis - rank + 1))]
    if ids is None or ids.axis or rows.axis or not ids.alike(rows):
        raise call.refusal("rows summed at places that are not theirs")
    return [Value(total=True)]


def ensure_shape(call: Call) -> List[Value]:
    """A shape that may say how many rows there are."""
    if call.total(0):
        return of_totals(call)
    rows = call.rows_along(0)
    wanted = call.view.attribute(call.name, "shape")
    known = [] if wanted is None or wanted.shape.unknown_rank else wanted.shape.dim
    if known and known[rows.axis].size >= 0:
        raise call.refusal("a number of rows that must stay")
    return elementwise(call)


RULES: Dict[str, Rule] = {
    "Reshape": reshape,
    "ExpandDims": expand,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Pack": pack,
    "Unpack": unpack,
    "ConcatV2": concatenate,
    "Split": split,
    "SplitV": split,
    "Slice": cut,
    "StridedSlice": strided_slice,
    "StridedSliceGrad": strided_slice_gradient,
    "Pad": pad,
    "PadV2": pad,
    "Tile": tile,
    "BroadcastTo": broadcast,
    "Fill": fill,
    "Gather": gather,
    "GatherV2": gather,
    "UnsortedSegmentSum": segment_sum,
    "EnsureShape": ensure_shape,
}
