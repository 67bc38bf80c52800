"""What `embedding_lookup_sparse` was given: the way back from its result.

    SparseSegment*(table, ids, segments)                                          fast
    SparseSegment*(rows of Unique:0, Unique:1, segments)                          classic

    Mul(rows of each id, Reshape(weights, [K, 1])) -> SegmentSum = total          weighted
        total                                                          sum
        DivNoNan(total, SegmentSum(weights))                           mean
        DivNoNan(total, Sqrt(SegmentSum(Pow(weights, 2))))             sqrtn

Rows of low precision are cast to float32 before they are weighted, and cast back at the end.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.row_ids import ROW_GATHERS, ids_of_rows, note_table_read
from graph_opt.rules.structure import Structure

_FLOAT = tf.float32.as_datatype_enum
_SEGMENT_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
_UNIQUE = ("Unique", "UniqueWithCounts")
_COMBINERS = {
    "SparseSegmentSum": "sum",
    "SparseSegmentMean": "mean",
    "SparseSegmentSqrtN": "sqrtn",
}
_DIVISIONS = ("DivNoNan", "RealDiv", "Div")


class CombinedIds(NamedTuple):
    """The arguments of `embedding_lookup_sparse`.

    Attributes:
      ids: [K].
      segments: [K]. The row of each id, int32 or int64.
      weights: [K], or None; cast to float32 if they were of another type.
      combiner: `sum`, `mean` or `sqrtn`.
      division: The node that divides by a sum of weights and gives nan or inf for 0, as that of
        TensorFlow 1 does; None where there is no division, or one that gives 0.
    """

    ids: TensorRef
    segments: TensorRef
    weights: Optional[TensorRef]
    combiner: str
    division: Optional[str]


def combined_ids(structure: Structure, lookup: Lookup, combined: TensorRef) -> CombinedIds:
    """What was looked up and combined to `combined`, [B, D].

    Raises:
      Refusal: lookup_differs.
    """
    if structure.is_made_by(combined, *_COMBINERS):
        rows, places, segments = structure.inputs(combined, *_COMBINERS)
        combiner = _COMBINERS[structure.view.op(combined.node)]
        if combined.node in lookup.gathers:
            note_table_read(structure, combined.node)
            ids = places
        else:
            ids = _ids_before_unique(structure, lookup, rows, places)
        return CombinedIds(ids, _segments(structure, segments), None, combiner, None)
    return _weighted(structure, lookup, combined)


def _ids_before_unique(
    structure: Structure, lookup: Lookup, rows: TensorRef, places: TensorRef
) -> TensorRef:
    ids = structure.inputs(places, *_UNIQUE, index=1)[0]
    unique = TensorRef(places.node, 0)
    structure.require_same(ids_of_rows(structure, lookup, rows), unique, rows.node)
    return ids


def _segments(structure: Structure, segments: TensorRef) -> TensorRef:
    """The segment ids before a Cast from int64 to int32, or the other way round."""
    if structure.is_made_by(segments, "Cast"):
        source = structure.inputs(segments, "Cast")[0]
        if structure.view.dtype(source) in _SEGMENT_INTEGERS:
            return source
    return segments


def _weighted(structure: Structure, lookup: Lookup, combined: TensorRef) -> CombinedIds:
    dtype = lookup.tables[0].dtype
    if dtype != _FLOAT:
        combined = structure.require_cast(combined, _FLOAT, dtype)
    total, divisor, division = combined, None, None
    if structure.is_made_by(combined, *_DIVISIONS):
        total, divisor = structure.inputs(combined, *_DIVISIONS)
        division = None if structure.is_made_by(combined, "DivNoNan") else combined.node
    product, segments = structure.inputs(total, "SegmentSum")
    rows, factors = structure.inputs(product, "Mul")
    combiner = "sum"
    if divisor is not None:
        combiner = _combiner_of(structure, divisor, factors, segments)
    if dtype != _FLOAT:
        rows = structure.require_cast(rows, dtype, _FLOAT)
    ids = _ids_of_each_row(structure, lookup, rows)
    weights = _weights(structure, factors)
    return CombinedIds(ids, _segments(structure, segments), weights, combiner, division)


def _combiner_of(
    structure: Structure, divisor: TensorRef, factors: TensorRef, segments: TensorRef
) -> str:
    is_root = structure.is_made_by(divisor, "Sqrt")
    summed = structure.inputs(divisor, "Sqrt")[0] if is_root else divisor
    terms, of_segments = structure.inputs(summed, "SegmentSum")
    structure.require_same(of_segments, segments, summed.node)
    if is_root:
        terms = _squared(structure, terms)
    structure.require_same(terms, factors, summed.node)
    return "sqrtn" if is_root else "mean"


def _squared(structure: Structure, squares: TensorRef) -> TensorRef:
    if structure.is_made_by(squares, "Square"):
        return structure.inputs(squares, "Square")[0]
    base, exponent = structure.inputs(squares, "Pow")
    structure.require_constant(exponent, 2)
    return base


def _ids_of_each_row(structure: Structure, lookup: Lookup, rows: TensorRef) -> TensorRef:
    """The ids [K] of rows [K, D], each of which is one id's."""
    if structure.is_made_by(rows, *ROW_GATHERS) and rows.node not in lookup.gathers:
        unique_rows, places = structure.inputs(rows, *ROW_GATHERS)[:2]
        require_along_rows(structure, rows.node)
        return _ids_before_unique(structure, lookup, unique_rows, places)
    ids = ids_of_rows(structure, lookup, rows)
    shape = structure.view.shape(ids)
    structure.require(shape is not None and len(shape) == 1, ids, "a vector", str(shape))
    return ids


def require_along_rows(structure: Structure, gather: str) -> None:
    """Refuses a Gather that takes anything but whole rows."""
    structure.require_attributes(gather, batch_dims=0)
    for axis in structure.view.inputs(gather)[2:]:
        structure.require_constant(axis, 0)


def _weights(structure: Structure, factors: TensorRef) -> TensorRef:
    """The weights [K] that were reshaped to [K, 1]."""
    weights, shape = structure.inputs(factors, "Reshape")
    vector, ones, axis = structure.inputs(shape, "ConcatV2")
    structure.require_constant(axis, 0)
    if structure.view.constant(vector) is None:
        structure.require_same(structure.inputs(vector, "Shape")[0], weights, vector.node)
    else:
        structure.require_constant(vector, list(structure.view.shape(weights) or [None]))
    _require_one_one(structure, ones)
    return weights


def _require_one_one(structure: Structure, ones: TensorRef) -> None:
    """Refuses unless this is the vector [1]: rows of weights have one dimension less than rows."""
    if structure.view.constant(ones) is not None:
        structure.require_constant(ones, [1])
        return
    count, one = structure.inputs(ones, "Fill")
    structure.require_constant(one, 1)
    found = structure.integer(count)
    structure.require(found == 1, ones, "one dimension more", "{} more".format(found))
