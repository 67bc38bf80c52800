"""Computes with shapes in which some dimensions are numbers of rows.

    Shape(logits) -> [2 rows, 16] -> Prod -> 32 rows -> FloorDiv(_, 16) -> 2 rows

Where such a number is a size, a copy uses that of its own rows; where it divides a mean, that of
the batch. `None` is an integer that is not known, but that all micro-batches share.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from graph_opt.passes.micro_batches.values import Count, array_of

Arrays = Sequence[Any]
Attributes = Callable[[str], Any]
MOST_ELEMENTS = 256
"""Of larger arrays nothing is known: they are no shapes."""


class NotKnown(Exception):
    """An integer is not known, and may differ between micro-batches."""


def evaluate(op: str, inputs: Arrays, attribute: Attributes) -> Optional[List[Any]]:
    """The outputs of a node that computes with shapes.

    Args:
      op: Its op.
      inputs: Its inputs, arrays of int, Count and None.
      attribute: Returns one of its attributes; None for one that it lacks.

    Returns:
      An array for each output; None if the op is none of these.

    Raises:
      NotKnown: An element is not known, and may differ between micro-batches.
    """
    rule = _RULES.get(op)
    if rule is None:
        return None
    try:
        found = rule(list(inputs), attribute)
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        raise NotKnown(op) from None
    outputs = found if isinstance(found, list) else [found]
    return [_as_array(one) for one in outputs]


def _as_array(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype == object:
        return value
    if isinstance(value, np.ndarray):
        return value.astype(object)
    scalar = np.empty((), dtype=object)
    scalar[()] = value
    return scalar


def _number(array: Any) -> int:
    """A single integer that is known."""
    value = array.reshape(-1)[0]
    if array.size != 1 or not isinstance(value, (int, np.integer)):
        raise NotKnown
    return int(value)


def _integers(array: Any) -> List[int]:
    return [_number(array[place : place + 1]) for place in range(array.size)]


def _both(left: Any, right: Any) -> bool:
    return isinstance(left, int) and isinstance(right, int)


def _shared(*numbers: Any) -> None:
    """What is not known may be computed with only if no number of rows is in it."""
    if any(isinstance(one, Count) for one in numbers):
        raise NotKnown


def _add(left: Any, right: Any) -> Any:
    if _both(left, right):
        return left + right
    for one, other in ((left, right), (right, left)):
        if isinstance(one, int) and one == 0:
            return other
    if isinstance(left, Count) and isinstance(right, Count):
        if left.rows.root is right.rows.root and None not in (left.times, right.times):
            return Count(left.rows, (left.times or 0) + (right.times or 0))
    _shared(left, right)
    return None


def _subtract(left: Any, right: Any) -> Any:
    if _both(left, right):
        return left - right
    if isinstance(right, int) and right == 0:
        return left
    if isinstance(left, Count) and left == right:
        return 0
    _shared(left, right)
    return None


def _multiply(left: Any, right: Any) -> Any:
    if _both(left, right):
        return left * right
    for one, other in ((left, right), (right, left)):
        if isinstance(one, int) and one in (0, 1):
            return other if one else 0
        if isinstance(one, Count) and not isinstance(other, Count):
            known = one.times is not None and other is not None
            return Count(one.rows, one.times * other if known else None)
    _shared(left, right)
    return None


def _divide(left: Any, right: Any) -> Any:
    if isinstance(right, int) and right == 1:
        return left
    if isinstance(left, Count):
        if left.times is None:
            raise NotKnown
        by = right.times if isinstance(right, Count) and _alike(left, right) else right
        if not isinstance(by, int) or left.times % by:
            raise NotKnown
        times = left.times // by
        return times if isinstance(right, Count) else Count(left.rows, times)
    _shared(left, right)
    return left // right if _both(left, right) else None


def _alike(left: Count, right: Count) -> bool:
    return left.rows.root is right.rows.root


def _modulo(left: Any, right: Any) -> Any:
    _shared(left, right)
    return left % right if _both(left, right) else None


def _largest(left: Any, right: Any) -> Any:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Count) and isinstance(other, int) and other <= 1:
            return one
    if isinstance(left, Count) and left == right:
        return left
    _shared(left, right)
    return max(left, right) if _both(left, right) else None


def _smallest(left: Any, right: Any) -> Any:
    _shared(left, right)
    return min(left, right) if _both(left, right) else None


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[[List[Any], Attributes], Any]:
    def rule(inputs: List[Any], attribute: Attributes) -> Any:
        return np.frompyfunc(function, 2, 1)(*inputs)

    return rule


def _reduction(function: Callable[[Any, Any], Any]) -> Callable[[List[Any], Attributes], Any]:
    def rule(inputs: List[Any], attribute: Attributes) -> Any:
        axes = tuple(_integers(inputs[1].reshape(-1)))
        kept = attribute("keep_dims")
        first = 0 if function is _add else 1 if function is _multiply else None
        reduce = np.frompyfunc(function, 2, 1).reduce
        array = inputs[0]
        for axis in sorted((axis % array.ndim for axis in axes), reverse=True):
            extra = {} if first is None else {"initial": first}
            array = _as_array(reduce(array, axis=axis, keepdims=bool(kept and kept.b), **extra))
        return array

    return rule


def _first(inputs: List[Any], attribute: Attributes) -> Any:
    return inputs[0]


def _reshape(inputs: List[Any], attribute: Attributes) -> Any:
    return inputs[0].reshape(_integers(inputs[1].reshape(-1)))


def _expand(inputs: List[Any], attribute: Attributes) -> Any:
    return np.expand_dims(inputs[0], _number(inputs[1]))


def _squeeze(inputs: List[Any], attribute: Attributes) -> Any:
    axes = attribute("squeeze_dims")
    listed = tuple(int(axis) for axis in axes.list.i) if axes is not None else ()
    return np.squeeze(inputs[0], listed or None)


def _pack(inputs: List[Any], attribute: Attributes) -> Any:
    axis = attribute("axis")
    return np.stack(inputs, int(axis.i) if axis is not None else 0)


def _unpack(inputs: List[Any], attribute: Attributes) -> Any:
    axis = attribute("axis")
    return [_as_array(one) for one in np.moveaxis(inputs[0], int(axis.i) if axis else 0, 0)]


def _concatenate(inputs: List[Any], attribute: Attributes) -> Any:
    return np.concatenate(inputs[:-1], _number(inputs[-1]))


def _transpose(inputs: List[Any], attribute: Attributes) -> Any:
    return np.transpose(inputs[0], _integers(inputs[1]))


def _slice(inputs: List[Any], attribute: Attributes) -> Any:
    begins, sizes = _integers(inputs[1]), _integers(inputs[2])
    places = [
        slice(begin, None if size < 0 else begin + size) for begin, size in zip(begins, sizes)
    ]
    return inputs[0][tuple(places)]


def _strided_slice(inputs: List[Any], attribute: Attributes) -> Any:
    return inputs[0][strided_places(inputs[1:], attribute)]


def strided_places(bounds: Arrays, attribute: Attributes) -> Any:
    """The index in Python of a StridedSlice.

    Args:
      bounds: Its begins, ends and strides.
      attribute: Returns one of its attributes.

    Raises:
      NotKnown: Some of them are not known.
    """
    masks = {}
    for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis"):
        value = attribute(key + "_mask")
        masks[key] = int(value.i) if value is not None else 0
    begins, ends, strides = bounds
    places: List[Any] = []
    for place in range(begins.size):
        bit = 1 << place
        if masks["ellipsis"] & bit:
            places.append(Ellipsis)
        elif masks["new_axis"] & bit:
            places.append(None)
        elif masks["shrink_axis"] & bit:
            places.append(_number(begins[place : place + 1]))
        else:
            begin = None if masks["begin"] & bit else _number(begins[place : place + 1])
            end = None if masks["end"] & bit else _number(ends[place : place + 1])
            places.append(slice(begin, end, _number(strides[place : place + 1])))
    return tuple(places)


def _gather(inputs: List[Any], attribute: Attributes) -> Any:
    axis = _number(inputs[2]) if len(inputs) > 2 else 0
    places = inputs[1]
    indices = np.array(_integers(places.reshape(-1)), np.int64).reshape(places.shape)
    return np.take(inputs[0], indices, axis=axis)


def _range(inputs: List[Any], attribute: Attributes) -> Any:
    return array_of(list(range(*(_number(one) for one in inputs))))


def _fill(inputs: List[Any], attribute: Attributes) -> Any:
    return np.full(_integers(inputs[0]), inputs[1].reshape(-1)[0], dtype=object)


def _tile(inputs: List[Any], attribute: Attributes) -> Any:
    return np.tile(inputs[0], _integers(inputs[1]))


def _like(value: int) -> Callable[[List[Any], Attributes], Any]:
    return lambda inputs, attribute: np.full(inputs[0].shape, value, dtype=object)


def _stitch(inputs: List[Any], attribute: Attributes) -> Any:
    half = len(inputs) // 2
    found: Dict[int, Any] = {}
    for places, values in zip(inputs[:half], inputs[half:]):
        found.update(zip(_integers(places.reshape(-1)), values.reshape(-1)))
    return array_of([found[place] for place in range(len(found))])


def _invert(inputs: List[Any], attribute: Attributes) -> Any:
    return array_of([int(place) for place in np.argsort(_integers(inputs[0]))])


def _broadcast_axes(inputs: List[Any], attribute: Attributes) -> Any:
    """The axes along which gradients of both operands are summed.

    A number of rows counts as more than 1: where it is 1, whether that axis is summed makes no
    difference.
    """
    rank = max(one.size for one in inputs)
    shapes = [[1] * (rank - one.size) + list(one) for one in inputs]
    axes: List[List[int]] = [[], []]
    for axis in range(rank):
        sizes = [_length(shape[axis]) for shape in shapes]
        if sizes[0] == sizes[1] and sizes[0] is not None:
            continue
        if 1 not in sizes:
            raise NotKnown
        axes[sizes.index(1)].append(axis)
    return [array_of(one) for one in axes]


def _length(element: Any) -> Any:
    """A number of rows that is known, as an integer; any other element as it is."""
    if isinstance(element, Count) and element.times is not None:
        static = element.rows.static
        return element if static is None else static * element.times
    return element


def _concat_offsets(inputs: List[Any], attribute: Attributes) -> Any:
    axis = _number(inputs[0])
    offset: Any = 0
    found = []
    for shape in inputs[1:]:
        places: List[Any] = [0] * shape.size
        places[axis] = offset
        found.append(array_of(places))
        offset = _add(offset, shape[axis])
    return found


_RULES: Dict[str, Callable[[List[Any], Attributes], Any]] = {
    **{op: _first for op in ("Identity", "StopGradient", "PreventGradient", "Snapshot", "Cast")},
    **{op: _elementwise(_add) for op in ("Add", "AddV2")},
    **{op: _elementwise(_divide) for op in ("FloorDiv",)},
    "Sub": _elementwise(_subtract),
    "Mul": _elementwise(_multiply),
    "FloorMod": _elementwise(_modulo),
    "Maximum": _elementwise(_largest),
    "Minimum": _elementwise(_smallest),
    "Prod": _reduction(_multiply),
    "Sum": _reduction(_add),
    "Max": _reduction(_largest),
    "Reshape": _reshape,
    "ExpandDims": _expand,
    "Squeeze": _squeeze,
    "Pack": _pack,
    "Unpack": _unpack,
    "ConcatV2": _concatenate,
    "Transpose": _transpose,
    "Slice": _slice,
    "StridedSlice": _strided_slice,
    "GatherV2": _gather,
    "Range": _range,
    "Fill": _fill,
    "Tile": _tile,
    "ZerosLike": _like(0),
    "OnesLike": _like(1),
    "DynamicStitch": _stitch,
    "InvertPermutation": _invert,
    "BroadcastGradientArgs": _broadcast_axes,
    "ConcatOffset": _concat_offsets,
}
