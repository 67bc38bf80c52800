"""The gradients of the ops between a lookup's gathers and its output, by forward op.

    forward op applied to rows              gradient of the rows, given that of the result, g
    Identity                                g
    Reshape(rows, ..)                       Reshape(g, Shape(rows)), or with a constant shape
    Cast(rows)                              Cast(g)
    ParallelDynamicStitch(positions, rows)  GatherV2(g, positions)
    SparseSegment*(rows, places, segments)  SparseSegment*Grad(g, places, segments, ..)
                                            UnsortedSegmentSum(GatherV2(g, segments), places)  1.15
    GatherV2(rows, places)                  UnsortedSegmentSum of the gather's IndexedSlices
    Mul(rows, weights)                      Mul(g, weights)
    SegmentSum(rows, segments)              GatherV2(g, segments)
    DivNoNan | RealDiv(rows, divisor)       the same op of (g, divisor)
    Select(empty, zeros, rows)              Select(empty, zeros, g)

Gradients of products and quotients are summed over the broadcast dimensions, of which there are
none here: Reshape(Sum(.., BroadcastGradientArgs), Shape(rows)). Where an op has several inputs,
their gradients go through `tf.tuple`: Identity nodes that wait for all of them.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import shape_source, values_and_ids
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.op_names import COMBINERS, GATHERS, STITCHES


class Step(NamedTuple):
    """One forward op: the node, and which of its inputs takes the rows."""

    node: str
    slot: int


class Pooling(NamedTuple):
    """The path of the rows from the gathers to the lookup's output.

    Attributes:
      shards: For each gather, the ops that only its rows pass through.
      common: The ops that all rows pass through after that.
      unique: Whether each row is gathered only once and distributed to its places afterwards.
    """

    shards: Tuple[Tuple[Step, ...], ...]
    common: Tuple[Step, ...]
    unique: bool


def pooling(view: GraphView, lookup: Lookup) -> Pooling:
    """The path of a lookup's rows from its gathers to its output.

    Raises:
      Refusal: lookup_differs.
    """
    common: List[Step] = []
    tensor = lookup.output
    while tensor.node not in lookup.gathers and view.op(tensor.node) not in STITCHES:
        tensor = _follow(view, tensor, common)
    shards: List[List[Step]] = [[] for _ in lookup.gathers]
    if tensor.node not in lookup.gathers:
        count = len(lookup.gathers)
        for shard, gather in enumerate(lookup.gathers):
            shards[shard].append(Step(tensor.node, count + shard))
            rows = view.inputs(tensor.node)[count + shard]
            while rows.node != gather:
                rows = _follow(view, rows, shards[shard])
    placing = (*COMBINERS, *GATHERS)
    last = view.op(lookup.gathers[0]) in COMBINERS
    return Pooling(
        shards=tuple(tuple(reversed(steps)) for steps in shards),
        common=tuple(reversed(common)),
        unique=last or any(view.op(step.node) in placing for step in common),
    )


def _follow(view: GraphView, tensor: TensorRef, steps: List[Step]) -> TensorRef:
    """Adds the op that produces `tensor` to the steps; returns the rows that it takes."""
    forward = _FORWARD_OPS.get(view.op(tensor.node))
    if forward is None:
        raise Refusal(
            "lookup_differs",
            at=tensor.node,
            need="an op of embedding lookups",
            saw=view.op(tensor.node),
        )
    steps.append(Step(tensor.node, forward.slot))
    return view.inputs(tensor.node)[forward.slot]


def gradient_of_output(
    structure: Structure, steps: Sequence[Step], gradient: TensorRef
) -> TensorRef:
    """The gradient of the last step's output, given that of the first step's rows.

    Args:
      structure: Records the nodes that are read.
      steps: In order of computation.
      gradient: The gradient of the first step's rows.

    Raises:
      Refusal: lookup_differs.
    """
    for step in steps:
        forward = _FORWARD_OPS[structure.view.op(step.node)]
        gradient = forward.gradient_of_output(structure, step, gradient)
    return gradient


def _identity(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    return gradient


def _reshape(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    gradient, shape = structure.inputs(_untied(structure, gradient), "Reshape")
    _require_shape_of(structure, shape, _rows(structure, step))
    return gradient


def _cast(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    return structure.inputs(_untied(structure, gradient), "Cast")[0]


def _stitch(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    inputs = structure.view.inputs(step.node)
    return _gathered(structure, gradient, inputs[step.slot - len(inputs) // 2])


def _segment_sum(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    return _gathered(structure, gradient, structure.view.inputs(step.node)[1])


def _gathered(structure: Structure, gradient: TensorRef, places: TensorRef) -> TensorRef:
    gradient = _untied(structure, gradient)
    source, found = structure.inputs(gradient, *GATHERS)[:2]
    structure.require_same(found, places, gradient.node)
    _require_along_rows(structure, gradient.node)
    return source


def _sparse_segment(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    rows, places, segments = structure.view.inputs(step.node)[:3]
    forward = structure.view.op(step.node).replace("WithNumSegments", "")
    gradient = _untied(structure, gradient)
    if forward == "SparseSegmentSum" and structure.is_made_by(gradient, "UnsortedSegmentSum"):
        spread, found, count = structure.inputs(gradient, "UnsortedSegmentSum")
        result = _gathered(structure, spread, segments)
    else:
        op = forward + "Grad"
        result, found, of_segments, count = structure.inputs(gradient, op)[:4]
        structure.require_same(of_segments, segments, gradient.node)
    structure.require_same(found, places, gradient.node)
    _require_part_of_shape(structure, count, rows)
    return result


def _gather(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    rows, places = structure.view.inputs(step.node)[:2]
    gradient = _untied(structure, gradient)
    values, indices, count = structure.inputs(gradient, "UnsortedSegmentSum")
    result, found, shape = values_and_ids(structure, values, indices)
    structure.require_same(found, places, gradient.node)
    _require_part_of_shape(structure, shape, rows)
    _require_part_of_shape(structure, count, rows)
    return result


def _times(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    return _by_other(structure, step, gradient, "Mul")


def _divided(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    return _by_other(structure, step, gradient, structure.view.op(step.node))


def _by_other(structure: Structure, step: Step, gradient: TensorRef, op: str) -> TensorRef:
    """Handles an op of rows and a column whose gradient is the same op of gradient and column."""
    rows, other = structure.view.inputs(step.node)
    gradient = _untied(structure, gradient)
    if structure.is_made_by(gradient, "Reshape"):
        total, shape = structure.inputs(gradient, "Reshape")
        _require_shape_of(structure, shape, rows)
        gradient, axes = structure.inputs(total, "Sum")
        of_rows, of_other = structure.inputs(axes, "BroadcastGradientArgs")
        _require_shape_of(structure, of_rows, rows)
        _require_shape_of(structure, of_other, other)
    result, factor = structure.inputs(gradient, op)
    structure.require_same(factor, other, gradient.node)
    return result


def _select(structure: Structure, step: Step, gradient: TensorRef) -> TensorRef:
    condition, zeros, _ = structure.view.inputs(step.node)
    gradient = _untied(structure, gradient)
    found, no_gradient, result = structure.inputs(gradient, "Select")
    structure.require_same(found, condition, gradient.node)
    value = structure.view.constant(no_gradient)
    if value is not None:
        structure.require(not np.any(value), no_gradient, "zeros", "other numbers")
    else:
        like = structure.inputs(no_gradient, "ZerosLike")[0]
        structure.require_same(like, zeros, no_gradient.node)
    return result


def _require_along_rows(structure: Structure, gather: str) -> None:
    """Refuses a gather of anything but whole rows."""
    structure.require_attributes(gather, batch_dims=0)
    for axis in structure.view.inputs(gather)[2:]:
        structure.require_constant(axis, 0)


def _untied(structure: Structure, gradient: TensorRef) -> TensorRef:
    """The gradient before the Identity that waits for those of the op's other inputs."""
    return structure.through(gradient, "Identity")


def _rows(structure: Structure, step: Step) -> TensorRef:
    return structure.view.inputs(step.node)[step.slot]


def _require_shape_of(structure: Structure, shape: TensorRef, tensor: TensorRef) -> None:
    """Refuses unless this is the whole shape of the tensor."""
    value = structure.view.constant(shape)
    if value is None:
        structure.require_same(structure.inputs(shape, "Shape")[0], tensor, shape.node)
        return
    known = structure.view.shape(tensor)
    # Later releases leave the only unknown dimension to Reshape.
    given = tuple(None if size == -1 else size for size in value.reshape(-1).tolist())
    fits = value.dtype.kind == "i" and given.count(None) <= 1 and known in (None, given)
    structure.require(fits, shape, "shape {}".format(known), str(value))


def _require_part_of_shape(structure: Structure, part: TensorRef, tensor: TensorRef) -> None:
    """Refuses unless this is a part of the tensor's shape."""
    source = shape_source(structure, part)
    if source is not None:
        structure.require_same(source, tensor, part.node)


class _ForwardOp(NamedTuple):
    slot: int  # the input that takes the rows
    gradient_of_output: Callable[[Structure, Step, TensorRef], TensorRef]


_FORWARD_OPS: Dict[str, _ForwardOp] = {
    "Identity": _ForwardOp(0, _identity),
    "EnsureShape": _ForwardOp(0, _identity),
    "Reshape": _ForwardOp(0, _reshape),
    "Cast": _ForwardOp(0, _cast),
    "Gather": _ForwardOp(0, _gather),
    "GatherV2": _ForwardOp(0, _gather),
    "Mul": _ForwardOp(0, _times),
    "SegmentSum": _ForwardOp(0, _segment_sum),
    "DivNoNan": _ForwardOp(0, _divided),
    "RealDiv": _ForwardOp(0, _divided),
    "Select": _ForwardOp(2, _select),
    **{op: _ForwardOp(0, _sparse_segment) for op in COMBINERS},
    **{op: _ForwardOp(0, _stitch) for op in STITCHES},
}
