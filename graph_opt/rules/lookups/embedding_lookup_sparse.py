"""`tf.nn.embedding_lookup_sparse`: the rows of each bag of ids, combined.

    SparseSegment*(table, ids, segments)                                          fast
    SparseSegment*(rows of Unique:0, Unique:1, segments)                          classic

    Mul(rows of each id, Reshape(weights, [K, 1])) -> SegmentSum = total          weighted
        total                                                          sum
        DivNoNan(total, SegmentSum(weights))                           mean
        DivNoNan(total, Sqrt(SegmentSum(Pow(weights, 2))))             sqrtn

Rows of low precision are cast to float32 before they are weighted, and by TensorFlow 2 cast back at
the end. TensorFlow 1 divides by RealDiv.
"""

from __future__ import annotations

from typing import Optional, Sequence

from graph_opt.compat import tf
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookups.embedding_lookup import rows_of, shape_of
from graph_opt.rules.match.matcher import Reading
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
    """The rows [B, D] of a table that bags of ids give."""
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
    """The rows [B, D] of a table that bags of weighted ids give, combined in one of these ways."""
    segments = _uncast(segments)
    unique = op(UNIQUES, ids)
    # Each id's row, with repetition: spread from unique ids, or gathered so in the fast way.
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
    """Whole rows of a tensor."""
    return one_of(
        op("GatherV2", data, places, constant(0), batch_dims=0), op("Gather", data, places)
    )


def _uncast(segments: Pattern) -> Pattern:
    """Segment ids, before a Cast from int64 to int32 or the other way round."""
    cast = op("Cast", segments).where(_casts_integers, "a Cast of integers")
    return one_of(cast, segments)


def _casts_integers(reading: Reading, tensor: TensorRef) -> bool:
    return reading.view.dtype(reading.view.inputs(tensor.node)[0]) in _INTEGERS


def _in_float32(rows: Pattern) -> Pattern:
    """Rows, those of low precision cast to float32."""
    cast = op("Cast", rows).where(_casts_to_float32, "a Cast to float32 of low precision")
    return one_of(cast, rows.where(_is_not_low_precision, "a Cast to float32"))


def _casts_to_float32(reading: Reading, tensor: TensorRef) -> bool:
    source = reading.view.dtype(reading.view.inputs(tensor.node)[0])
    return source in _LOW_PRECISION and reading.view.dtype(tensor) == _FLOAT


def _is_not_low_precision(reading: Reading, tensor: TensorRef) -> bool:
    return reading.view.dtype(tensor) not in _LOW_PRECISION


def _cast_back(combined: Pattern) -> Pattern:
    cast = op("Cast", combined).where(_casts_to_table, "a Cast to the table's type")
    return one_of(cast, combined)


def _casts_to_table(reading: Reading, tensor: TensorRef) -> bool:
    dtypes = {table.dtype for table in reading.tables.values()}
    return dtypes == {reading.view.dtype(tensor)} and not dtypes.isdisjoint(_LOW_PRECISION)


def _divided(total: Pattern, divisor: Pattern) -> Pattern:
    plain = op(("RealDiv", "Div"), total, divisor).where(_notes_division, "")
    return one_of(op("DivNoNan", total, divisor), plain)


def _notes_division(reading: Reading, tensor: TensorRef) -> bool:
    """Notes a division that gives nan or inf where weights sum to 0, as that of TensorFlow 1."""
    reading.note(reading.facts, "division", tensor.node)
    return True


def _has_rank_one(ids: Pattern) -> Condition:
    def holds(reading: Reading, _: TensorRef) -> Optional[bool]:
        shape = reading.view.shape(reading.places[ids])
        return None if shape is None else len(shape) == 1

    return holds


def _reads_table(reading: Reading, tensor: TensorRef) -> bool:
    """Notes the table that a reduction reads itself: the fast way of TensorFlow 2."""
    try:
        table = require_table(reading.view, tensor.node, reading.view.inputs(tensor.node)[0])
    except Refusal:
        return False
    if table is not None:
        reading.note(reading.tables, tensor.node, table)
    return table is not None


SPARSE: Pattern = one_of(
    unweighted_rows(tensor("ids"), tensor("segments")),
    weighted_rows(tensor("ids"), tensor("segments"), tensor("weights")),
)
