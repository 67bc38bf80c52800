"""The inputs of an update: hyperparameters, and the IndexedSlices whose sum it applies."""

from __future__ import annotations

from typing import Dict, Hashable, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.ops.optimizers import OptimizerSpec
from graph_opt.rules.gradients.gather import Slices, shape_source
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import (
    ANY,
    Condition,
    Op,
    Pattern,
    constant,
    one_of,
    op,
    tensor,
)
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.op_names import PASS_VALUES_ON, VARIABLES

Hyperparameter = Union[TensorRef, float]  # a tensor, or the value of a constant

ANY_LENGTH = "_graph_opt_any_length"
"""On nodes of graph_opt that only hide how many slices there are."""
_SCALAR_OPS = frozenset(["Add", "AddV2", "Sub", "Mul", "RealDiv", "Pow", "Sqrt", "Neg"])
_UNIQUE = ("Unique", "UniqueV2")
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)


def hyperparameter(view: GraphView, tensor: TensorRef) -> Hyperparameter:
    """A hyperparameter: a constant's value, or a tensor that is the same for equal updates.

    Each table's update reads a variable separately; the first plain read represents them all.
    Identity nodes that wait for something are kept.
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


def value_key(view: GraphView, value: Hyperparameter, deepest: int = 8) -> Hashable:
    """The same for hyperparameters with the same value: the same ops of the same tensors.

    Some optimizers compute a hyperparameter for each table.

    Args:
      view: The graph.
      value: The hyperparameter.
      deepest: Maximum nesting depth of ops to compare.
    """
    if not isinstance(value, TensorRef) or deepest == 0:
        return value
    op = view.op(value.node)
    if op not in _SCALAR_OPS or view.controls(value.node):
        return value
    inputs = [hyperparameter(view, source) for source in view.inputs(value.node)]
    return (op, *(value_key(view, source, deepest - 1) for source in inputs))


def flag(view: GraphView, writer: str, name: str, default: bool = False) -> bool:
    """A boolean attribute; files omit attributes with their default value."""
    value = view.attribute(writer, name)
    return default if value is None else bool(value.b)


def listed_flags(view: GraphView, writer: str, spec: OptimizerSpec) -> Dict[str, bool]:
    """The flags of an update by an op of graph_opt's own, which lists those that are set."""
    listed = view.attribute(writer, "flags")
    is_set = [] if listed is None else [name.decode() for name in listed.list.s]
    flags = {name: name in is_set for name in spec.flags}
    return {**flags, "use_locking": flag(view, writer, "use_locking")}


def is_scalar(view: GraphView, tensor: TensorRef) -> bool:
    """Whether the tensor is known to be a scalar."""
    value = view.constant(tensor)
    return value.ndim == 0 if value is not None else view.shape(tensor) == ()


def scalar(pattern: Pattern) -> Pattern:
    """The pattern, if its tensor is known to be a scalar."""
    return pattern.where(lambda match, found: is_scalar(match.view, found), "a scalar")


def rest_of_one(taken: Pattern) -> Pattern:
    """What is left of 1 without this."""
    return op("Sub", constant(1), taken)


def equals(name: str) -> Condition:
    """Whether a tensor is the same hyperparameter as the one bound to the name."""

    def holds(match: Match, found: TensorRef) -> bool:
        bound = match.tensors[name]
        return hyperparameter(match.view, found) == hyperparameter(match.view, bound)

    return holds


def summed() -> Tuple[Pattern, Pattern]:
    """The tensors `values` and `indices` with duplicates of a row summed.

    Without that, apply ops would apply one duplicate after the other, unless there are none
    (`compat/ascending_rows.py`).
    """
    unique = op(_UNIQUE, tensor("indices"), ...)
    count = ANY.where(_counts(unique), "the number of unique rows")
    values = op("UnsortedSegmentSum", tensor("values"), unique[1], count)
    once = tensor("indices").where(_come_once, "rows that come once each")
    as_they_are = tensor("values").where(
        lambda match, _: unique not in match.nodes_of, "values that are summed"
    )
    rows = unique[0].where(
        lambda match, _: as_they_are not in match.places, "rows that are not summed"
    )
    return one_of(values, as_they_are), one_of(rows, once)


def _come_once(match: Match, indices: TensorRef) -> bool:
    return match.view.op(indices.node) == EXCHANGE_SUMS


def _counts(unique: Op) -> Condition:
    def holds(match: Match, count: TensorRef) -> bool:
        structure = Structure(match.view)
        try:
            source = shape_source(structure, count)
        except Refusal:
            return False
        for node in structure.seen:
            match.note(match.nodes, node, None)
        return source in (None, TensorRef(match.nodes_of[unique], 0))

    return holds


def parts_of(structure: Structure, values: TensorRef, indices: TensorRef) -> Tuple[Slices, ...]:
    """The IndexedSlices that these concatenate, in order; just these if they concatenate none."""
    values = _passed_on(structure, values)
    indices = _uncast(structure, _passed_on(structure, indices))
    if not _are_joined(structure, values, indices):
        return (Slices(values, indices),)
    pairs = zip(
        structure.inputs(values, "ConcatV2")[:-1], structure.inputs(indices, "ConcatV2")[:-1]
    )
    return tuple(part for pair in pairs for part in parts_of(structure, *pair))


def _passed_on(structure: Structure, tensor: TensorRef) -> TensorRef:
    """What has the value of a tensor, before nodes that pass it on or say less of its shape."""
    tensor = structure.through(tensor, *PASS_VALUES_ON)
    while structure.view.attribute(tensor.node, ANY_LENGTH) is not None:
        tensor = structure.inputs(tensor, "PlaceholderWithDefault")[0]
        tensor = structure.through(tensor, *PASS_VALUES_ON)
    return tensor


def _are_joined(structure: Structure, values: TensorRef, indices: TensorRef) -> bool:
    view = structure.view
    if view.op(values.node) != "ConcatV2" or view.op(indices.node) != "ConcatV2":
        return False
    joined = [view.inputs(tensor.node) for tensor in (values, indices)]
    axes = [view.constant(inputs[-1]) for inputs in joined]
    along_rows = all(axis is not None and int(axis) == 0 for axis in axes)
    return along_rows and len(joined[0]) == len(joined[1])


def _uncast(structure: Structure, indices: TensorRef) -> TensorRef:
    """Indices before a Cast from int32 to int64: concatenated indices must have the same dtype."""
    view = structure.view
    if view.op(indices.node) != "Cast":
        return indices
    source = view.inputs(indices.node)[0]
    if (view.dtype(source), view.dtype(indices)) != _INTEGERS:
        return indices
    structure.seen[indices.node] = None
    return _passed_on(structure, source)
