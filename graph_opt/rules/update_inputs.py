"""What an update is given: numbers, and the IndexedSlices whose sum it applies."""

from __future__ import annotations

from typing import Tuple, Union

from graph_opt.compat import tf
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.gradients.gather import Slices, shape_source
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.op_names import VARIABLES

Number = Union[TensorRef, float]

_PASS_ON = ("Identity", "StopGradient", "PreventGradient", "EnsureShape")
_UNIQUE = ("Unique", "UniqueV2")
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)


def number(view: GraphView, tensor: TensorRef) -> Number:
    """A hyperparameter: a constant's value, or the tensor that equal updates have in common.

    Each table's update reads a variable for itself; the first plain read of it stands for all.
    Identities that wait for something are kept.
    """
    value = view.constant(tensor)
    if value is not None and value.size == 1 and value.dtype.kind == "f":
        return float(value.reshape(-1)[0])
    while view.op(tensor.node) == "Identity" and not view.controls(tensor.node):
        source = view.inputs(tensor.node)[0]
        if view.op(source.node) in VARIABLES:
            return tensor
        tensor = source
    if view.op(tensor.node) != "ReadVariableOp" or view.controls(tensor.node):
        return tensor
    for use in view.uses(view.inputs(tensor.node)[0]):
        if view.op(use.consumer) == "ReadVariableOp" and not view.controls(use.consumer):
            return TensorRef(use.consumer, 0)
    return tensor


def is_scalar(view: GraphView, tensor: TensorRef) -> bool:
    """Whether the tensor is known to have one element and no dimension."""
    value = view.constant(tensor)
    return value.ndim == 0 if value is not None else view.shape(tensor) == ()


def summed_by_row(
    structure: Structure, values: TensorRef, indices: TensorRef
) -> Tuple[TensorRef, TensorRef]:
    """The values and indices before the duplicates of a row were summed.

    Raises:
      Refusal: lookup_differs, where they were not: apply ops take one duplicate after the other.
    """
    summed, places, count = structure.inputs(values, "UnsortedSegmentSum")
    before = structure.inputs(indices, *_UNIQUE)[0]
    structure.require_same(places, TensorRef(indices.node, 1), values.node)
    source = shape_source(structure, count)
    if source is not None:
        structure.require_same(source, indices, count.node)
    return summed, before


def parts_of(structure: Structure, values: TensorRef, indices: TensorRef) -> Tuple[Slices, ...]:
    """The IndexedSlices that were joined to these, in order; one where nothing was joined."""
    values = structure.through(values, *_PASS_ON)
    indices = _uncast(structure, structure.through(indices, *_PASS_ON))
    if not _are_joined(structure, values, indices):
        return (Slices(values, indices),)
    pairs = zip(
        structure.inputs(values, "ConcatV2")[:-1], structure.inputs(indices, "ConcatV2")[:-1]
    )
    return tuple(part for pair in pairs for part in parts_of(structure, *pair))


def _are_joined(structure: Structure, values: TensorRef, indices: TensorRef) -> bool:
    view = structure.view
    if view.op(values.node) != "ConcatV2" or view.op(indices.node) != "ConcatV2":
        return False
    joined = [view.inputs(tensor.node) for tensor in (values, indices)]
    axes = [view.constant(inputs[-1]) for inputs in joined]
    along_rows = all(axis is not None and int(axis) == 0 for axis in axes)
    return along_rows and len(joined[0]) == len(joined[1])


def _uncast(structure: Structure, indices: TensorRef) -> TensorRef:
    """Before a Cast from int32 to int64: indices that are joined must be of one type."""
    view = structure.view
    if view.op(indices.node) != "Cast":
        return indices
    source = view.inputs(indices.node)[0]
    if (view.dtype(source), view.dtype(indices)) != _INTEGERS:
        return indices
    structure.seen[indices.node] = None
    return structure.through(source, *_PASS_ON)
