"""What `safe_embedding_lookup_sparse` was given: the way back from its result.

    indices, dense_shape -> SparseReshape(.., [prod(all but last), last])
    values -> Identity -> prune -> [prune] -> SparseFillEmptyRows(.., default) -> combined
    weights            -> prune -> [prune] -> SparseFillEmptyRows(.., 1)

    prune     Gather(x, Reshape(Where(keep), [-1]))
              keep = values >= 0, with weights: and all true
              then, with weights and unless the combiner is a sum: keep = weights > 0
    combined  -> [Select(Tile(Reshape(which rows were empty, [-1, 1]), [1, D]), 0, combined)]
              -> Reshape to dense_shape[:-1] + [D]

Without a Select, the default is a row's number: rows without ids become that row.
"""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Tuple

import numpy as np

from graph_opt.graph.view import TensorRef
from graph_opt.rules.combined_ids import CombinedIds, combined_ids, require_along_rows
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.structure import Structure

_FILL = "SparseFillEmptyRows"
_GATHERS = ("Gather", "GatherV2")
_SELECTS = ("Select", "SelectV2")
_NO_DEFAULT = -1
_NO_MASKS = {"begin_mask": 0, "end_mask": 0, "ellipsis_mask": 0, "new_axis_mask": 0}


class SafeIds(NamedTuple):
    """The arguments of `safe_embedding_lookup_sparse`.

    Attributes:
      ids: [K]. Values of the SparseTensor.
      indices: [K, rank].
      dense_shape: [rank].
      weights: [K], or None.
      combined: What was combined, once it was pruned and filled.
      default_id: The row that rows without ids give; -1 is zeros.
    """

    ids: TensorRef
    indices: TensorRef
    dense_shape: TensorRef
    weights: Optional[TensorRef]
    combined: CombinedIds
    default_id: int


class _Slice(NamedTuple):
    source: TensorRef
    size: TensorRef


class _Result(NamedTuple):
    """What stands behind the combined rows."""

    combined: TensorRef
    empty: Optional[TensorRef]  # which rows had no ids, where those are zeroed
    outer: Optional[_Slice]  # of the shape that the result is given, where it is given one


class _Pruned(NamedTuple):
    source: TensorRef
    conditions: List[TensorRef]  # in the order in which they were applied
    before: List[TensorRef]  # what each was applied to


def safe_ids(structure: Structure, lookup: Lookup) -> SafeIds:
    """What was looked up, combined and filled to the lookup's output.

    Raises:
      Refusal: lookup_differs.
    """
    result = _read_result(structure, lookup)
    combined = combined_ids(structure, lookup, result.combined)
    shape, default = structure.inputs(combined.ids, _FILL, index=1)[2:]
    _require_first_column(structure, combined)
    if result.empty is not None:
        structure.require_same(result.empty, TensorRef(combined.ids.node, 2), lookup.output.node)
    flat = structure.through(shape, "Identity")
    indices, dense_shape, new_shape = structure.inputs(flat, "SparseReshape", index=1)
    sizes = _require_rows_and_last(structure, new_shape, dense_shape)
    if result.outer is not None:
        structure.require_same(result.outer.source, dense_shape, lookup.output.node)
        sizes.append(result.outer.size)
    rank = _rank(structure, sizes, dense_shape)
    need = "a Reshape to the shape of the ids, unless they have two dimensions"
    structure.require(result.outer is not None or rank == 2, lookup.output, need)
    ids, weights = _before_pruning(structure, combined, flat)
    default_id = _default_id(structure, default, result.empty is not None)
    return SafeIds(ids, indices, dense_shape, weights, combined, default_id)


def _read_result(structure: Structure, lookup: Lookup) -> _Result:
    rows, outer, empty = lookup.output, None, None
    if structure.is_made_by(rows, "Reshape"):
        rows, shape = structure.inputs(rows, "Reshape")
        kept, width, axis = structure.inputs(shape, "ConcatV2")
        structure.require_constant(axis, 0)
        outer = _slice(structure, kept, 0)
        outer = outer._replace(source=structure.through(outer.source, "Cast"))
        _require_width(structure, lookup, width, rows)
    if structure.is_made_by(rows, *_SELECTS):
        tiled, zeros, combined = structure.inputs(rows, *_SELECTS)
        _require_zeros(structure, zeros, combined)
        column, multiples = structure.inputs(tiled, "Tile")
        _require_multiples(structure, lookup, multiples, combined)
        empty, dims = structure.inputs(column, "Reshape")
        structure.require_constant(dims, [-1, 1])
        rows = combined
    return _Result(rows, empty, outer)


def _slice(structure: Structure, tensor: TensorRef, first: int) -> _Slice:
    """A Slice of a vector from entry `first` on."""
    source, begin, size = structure.inputs(tensor, "Slice")
    structure.require_constant(begin, [first])
    return _Slice(source, size)


def _require_width(structure: Structure, lookup: Lookup, width: TensorRef, rows: TensorRef) -> None:
    """Refuses unless this is all but the first entry of the shape of `rows`, [B, D]."""
    inner = _slice(structure, width, 1)
    structure.require_constant(inner.size, [-1])
    value = structure.view.constant(inner.source)
    if value is None:
        structure.require_same(structure.inputs(inner.source, "Shape")[0], rows, width.node)
    else:
        structure.require(list(value[1:]) == [_width(lookup)], width, "the width", str(value))


def _require_zeros(structure: Structure, zeros: TensorRef, combined: TensorRef) -> None:
    value = structure.view.constant(zeros)
    if value is None:
        structure.require_same(structure.inputs(zeros, "ZerosLike")[0], combined, zeros.node)
    else:
        structure.require(not np.any(value), zeros, "zeros", "other numbers")


def _require_multiples(
    structure: Structure, lookup: Lookup, multiples: TensorRef, combined: TensorRef
) -> None:
    """Refuses unless a column is repeated as often as the rows are wide: [1, D]."""
    if structure.view.constant(multiples) is not None:
        structure.require_constant(multiples, [1, _width(lookup)])
        return
    once, width = structure.inputs(multiples, "Pack")
    structure.require_constant(once, 1)
    if structure.view.constant(width) is not None:
        structure.require_constant(width, _width(lookup))
        return
    shape, begin, end, step = structure.inputs(width, "StridedSlice")
    for tensor, entry in ((begin, 1), (end, 2), (step, 1)):
        structure.require_constant(tensor, [entry])
    structure.require_attributes(width.node, shrink_axis_mask=1, **_NO_MASKS)
    structure.require_same(structure.inputs(shape, "Shape")[0], combined, shape.node)


def _require_first_column(structure: Structure, combined: CombinedIds) -> None:
    """Refuses unless segments are indices[:, 0] of the filled ids."""
    indices, begin, end, step = structure.inputs(combined.segments, "StridedSlice")
    structure.require_same(indices, TensorRef(combined.ids.node, 0), combined.segments.node)
    for tensor, entries in ((begin, [0, 0]), (end, [0, 1]), (step, [1, 1])):
        structure.require_constant(tensor, entries)
    masks = dict(_NO_MASKS, begin_mask=1, end_mask=1, shrink_axis_mask=2)
    structure.require_attributes(combined.segments.node, **masks)


def _require_rows_and_last(
    structure: Structure, new_shape: TensorRef, dense_shape: TensorRef
) -> List[TensorRef]:
    """Refuses unless this is [prod(dense_shape[:n]), dense_shape[n]]; gives back what n is."""
    product, last = structure.inputs(structure.through(new_shape, "Cast"), "Pack")
    multiplied, axes = structure.inputs(product, "Prod")
    structure.require_constant(axes, [0])
    outer = _slice(structure, multiplied, 0)
    structure.require_same(outer.source, dense_shape, multiplied.node)
    source, number = structure.inputs(last, *_GATHERS)[:2]
    require_along_rows(structure, last.node)
    structure.require_same(source, dense_shape, last.node)
    return [outer.size, number]


def _rank(structure: Structure, sizes: List[TensorRef], dense_shape: TensorRef) -> Optional[int]:
    """Entries of `dense_shape`, if all `sizes` are one less; None where nobody can tell."""
    shape = structure.view.shape(dense_shape)
    known = shape[0] if shape else None
    for size in sizes:
        number = structure.integer(size)
        if number is None:
            size = structure.through(size, "Pack", "ExpandDims", "Reshape")
            counted = structure.inputs(structure.operation(size, "Sub", 1), "Size")[0]
            structure.require_same(counted, dense_shape, size.node)
            continue
        structure.require(known in (None, number + 1), size, "{} - 1".format(known), str(number))
        known = number + 1
    return known


def _before_pruning(
    structure: Structure, combined: CombinedIds, flat: TensorRef
) -> Tuple[TensorRef, Optional[TensorRef]]:
    """(ids, weights) of which those not valid were dropped and which were then filled."""
    drops_weights = combined.weights is not None and combined.combiner != "sum"
    count = 2 if drops_weights else 1
    indices, values = structure.inputs(combined.ids, _FILL, index=1)[:2]
    ids = _pruned(structure, values, count)
    _require_pruned_alike(structure, _pruned(structure, indices, count), ids, flat)
    valid = ids.conditions[0]
    weights = None
    if combined.weights is not None:
        weights = _weights_before_pruning(structure, combined.weights, ids, flat)
        valid, trues = structure.inputs(valid, "LogicalAnd")
        _require_trues(structure, trues, weights.source)
        if drops_weights:
            _require_condition(structure, ids.conditions[1], "Greater", weights.before[1])
    _require_condition(structure, valid, "GreaterEqual", ids.source)
    source = structure.inputs(ids.source, "Identity")[0]
    return source, None if weights is None else weights.source


def _weights_before_pruning(
    structure: Structure, filled: TensorRef, ids: _Pruned, flat: TensorRef
) -> _Pruned:
    filled = structure.through(filled, "Cast")
    indices, values, shape, default = structure.inputs(filled, _FILL, index=1)
    structure.require_constant(default, 1)
    structure.require_same(structure.through(shape, "Identity"), flat, filled.node)
    count = len(ids.conditions)
    _require_pruned_alike(structure, _pruned(structure, indices, count), ids, flat)
    weights = _pruned(structure, values, count)
    _require_pruned_alike(structure, weights, ids)
    return weights


def _pruned(structure: Structure, tensor: TensorRef, count: int) -> _Pruned:
    """What was pruned `count` times to give the tensor."""
    conditions: List[TensorRef] = []
    before: List[TensorRef] = []
    for _ in range(count):
        data, places = structure.inputs(tensor, *_GATHERS)[:2]
        require_along_rows(structure, tensor.node)
        found, dims = structure.inputs(places, "Reshape")
        structure.require_constant(dims, [-1])
        conditions.insert(0, structure.inputs(found, "Where")[0])
        before.insert(0, data)
        tensor = data
    return _Pruned(tensor, conditions, before)


def _require_pruned_alike(
    structure: Structure, pruned: _Pruned, ids: _Pruned, flat: Optional[TensorRef] = None
) -> None:
    """Refuses unless the same was dropped as of the ids, and of the flat ids' indices."""
    if flat is not None:
        structure.require_same(pruned.source, TensorRef(flat.node, 0), flat.node)
    for condition, wanted in zip(pruned.conditions, ids.conditions):
        structure.require_same(condition, wanted, pruned.source.node)


def _require_condition(
    structure: Structure, condition: TensorRef, op: str, wanted: TensorRef
) -> None:
    compared, zero = structure.inputs(condition, op)
    structure.require_same(compared, wanted, condition.node)
    structure.require_constant(zero, 0)


def _require_trues(structure: Structure, trues: TensorRef, weights: TensorRef) -> None:
    """Refuses unless this is true for each weight."""
    value = structure.view.constant(trues)
    if value is None:
        shape, value_of_each = structure.inputs(trues, "Fill")
        structure.require_constant(value_of_each, True)
        if structure.view.constant(shape) is None:
            structure.require_same(structure.inputs(shape, "Shape")[0], weights, trues.node)
    else:
        structure.require(bool(np.all(value)), trues, "true", "false")


def _default_id(structure: Structure, default: TensorRef, is_zeroed: bool) -> int:
    if is_zeroed:
        structure.require_constant(default, 0)
        return _NO_DEFAULT
    number = structure.integer(default)
    need = "a constant row of the table for rows without ids"
    structure.require(number is not None and number >= 0, default, need, str(number))
    return number or 0


def _width(lookup: Lookup) -> Optional[int]:
    shape = lookup.tables[0].shape
    return shape[1] if shape else None
