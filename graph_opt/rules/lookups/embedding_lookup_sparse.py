"""`tf.nn.embedding_lookup_sparse`: the rows of each bag of ids, combined.

    SparseSegment*(table, ids, segments)                                          fast
    SparseSegment*(rows of Unique:0, Unique:1, segments)                          classic

    Mul(rows of each id, Reshape(weights, [K, 1])) -> SegmentSum = total          weighted
        total                                                          sum
        DivNoNan(total, SegmentSum(weights))                           mean
        DivNoNan(total, Sqrt(SegmentSum(Pow(weights, 2))))             sqrtn

Low-precision rows are cast to float32 before they are weighted; TensorFlow 2 casts the result back.
TensorFlow 1 divides with RealDiv, which gives nan or infinite numbers where weights add up to 0.
"""

from __future__ import annotations

from typing import Optional, Sequence

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookups.embedding_lookup import rows_of, shape_of
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import (
    ANY,
    Condition,
    Pattern,
    constant,
    integer,
    one_of,
    op,
    optional,
    tensor,
)
from graph_opt.rules.match.table import require_table
from graph_opt.rules.op_names import COUNTED_SEGMENT_REDUCTIONS, SEGMENT_REDUCTIONS, UNIQUES

_FLOAT = tf.float32.as_datatype_enum
_LOW_PRECISION = (tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum)
_INTEGERS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
COMBINERS = ("mean", "sqrtn", "sum")


def unweighted_rows(ids: Pattern, segments: Pattern) -> Pattern:
    """Combined rows [B, D] of a table for bags of ids."""
    segments = _uncast(segments)
    unique = op(UNIQUES, ids)
    rows = optional("Cast", rows_of(unique[0]))
    plain = [
        one_of(
            op(name, rows, unique[1], segments),
            op(name, ANY, ids, segments).where(_reads_table, "rows of a table"),
        ).gives(combiner=combiner)
        for name, combiner in SEGMENT_REDUCTIONS.items()
    ]
    counted = [
        one_of(
            op(name, rows, unique[1], segments, ANY),
            op(name, ANY, ids, segments, ANY).where(_reads_table, "rows of a table"),
        ).gives(combiner=combiner, counted=True)
        for name, combiner in COUNTED_SEGMENT_REDUCTIONS.items()
    ]
    return one_of(*plain, *counted)


def weighted_rows(
    ids: Pattern, segments: Pattern, weights: Pattern, combiners: Sequence[str] = COMBINERS
) -> Pattern:
    """Rows [B, D] of a table for bags of weighted ids, combined by one of these combiners."""
    segments = _uncast(segments)
    unique = op(UNIQUES, ids)
    # One row per id: distributed from unique ids, or gathered directly (TensorFlow 2's fast path).
    spread = gathered(rows_of(unique[0]), unique[1])
    each = rows_of(ids).where(_has_rank_one(ids), "ids in a vector")
    ones = one_of(constant([1]), op("Fill", integer(1), constant(1)))
    factors = op("Reshape", weights, op("ConcatV2", shape_of(weights), ones, constant(0)))
    total = op("SegmentSum", op("Mul", _in_float32(one_of(spread, each)), factors), segments)
    squares = one_of(op("Square", factors), op("Pow", factors, constant(2)))
    endings = {
        "sum": total,
        "mean": _divided(total, op("SegmentSum", factors, segments)),
        "sqrtn": _divided(total, op("Sqrt", op("SegmentSum", squares, segments))),
    }
    named = [endings[name].gives(combiner=name, weighted=True) for name in combiners]
    return _cast_back(one_of(*named))


def gathered(data: Pattern, places: Pattern) -> Pattern:
    """A gather of whole rows of a tensor."""
    return one_of(
        op("GatherV2", data, places, constant(0), batch_dims=0), op("Gather", data, places)
    )


def _uncast(segments: Pattern) -> Pattern:
    """Segment ids before an optional Cast between int64 and int32."""
    cast = op("Cast", segments).where(_casts_integers, "a Cast of integers")
    return one_of(cast, segments)


def _casts_integers(match: Match, tensor: TensorRef) -> bool:
    return match.view.dtype(match.view.inputs(tensor.node)[0]) in _INTEGERS


def _in_float32(rows: Pattern) -> Pattern:
    """Rows, cast to float32 if they are of low precision."""
    cast = op("Cast", rows).where(_casts_to_float32, "a Cast from low precision to float32")
    return one_of(cast, rows.where(_is_not_low_precision, "a Cast to float32"))


def _casts_to_float32(match: Match, tensor: TensorRef) -> bool:
    source = match.view.dtype(match.view.inputs(tensor.node)[0])
    return source in _LOW_PRECISION and match.view.dtype(tensor) == _FLOAT


def _is_not_low_precision(match: Match, tensor: TensorRef) -> bool:
    return match.view.dtype(tensor) not in _LOW_PRECISION


def _cast_back(combined: Pattern) -> Pattern:
    cast = op("Cast", combined).where(_casts_to_table, "a Cast to the table's type")
    return one_of(cast, combined)


def _casts_to_table(match: Match, tensor: TensorRef) -> bool:
    dtypes = {table.dtype for table in match.tables.values()}
    return dtypes == {match.view.dtype(tensor)} and not dtypes.isdisjoint(_LOW_PRECISION)


def _divided(total: Pattern, divisor: Pattern) -> Pattern:
    plain = op(("RealDiv", "Div"), total, divisor).gives(divides_by_zero=True)
    return one_of(op("DivNoNan", total, divisor), plain)


def _has_rank_one(ids: Pattern) -> Condition:
    def holds(match: Match, _: TensorRef) -> Optional[bool]:
        shape = match.view.shape(match.places[ids])
        return None if shape is None else len(shape) == 1

    return holds


def _reads_table(match: Match, tensor: TensorRef) -> bool:
    """Records the table that a reduction reads directly, on TensorFlow 2's fast path."""
    try:
        table = require_table(match.view, tensor.node, match.view.inputs(tensor.node)[0])
    except Refusal:
        return False
    if table is not None:
        match.note(match.tables, tensor.node, table)
    return table is not None


SPARSE: Pattern = one_of(
    unweighted_rows(tensor("ids"), tensor("segments")),
    weighted_rows(tensor("ids"), tensor("segments"), tensor("weights")),
)
