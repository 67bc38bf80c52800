"""`tf.contrib.layers.scattered_embedding_column` (TF 1.15): every id is hashed to D positions.

    Unique(values):0 -> SparseFeatureCrossV2 -> SparseToDense = places [U, D] in a rank-1 table
    gather(places) -> Reshape -> SparseSegmentMean(rows, Unique:1, segment ids)

The ids of such a lookup are the values before they are hashed.
"""

from __future__ import annotations

from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookups.embedding_lookup import rows_of
from graph_opt.rules.match.computed import computed_from
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import ANY, Pattern, one_of, op, tensor
from graph_opt.rules.op_names import SEGMENT_REDUCTIONS

# Ops from the unique values to their positions in the table.
_HASHING = frozenset(
    [
        "SparseToDense", "SparseFeatureCrossV2", "SparseFeatureCross", "Cast", "Tile", "Reshape",
        "Shape", "StridedSlice", "Pack", "ExpandDims", "Range", "Prod", "ConcatV2", "Const",
        "Identity", "Size",
    ]
)  # fmt: skip


def _are_hashes(match: Match, combined: TensorRef) -> bool:
    unique = match.view.inputs(combined.node)[1].node
    places = match.tensors["places"]
    return computed_from(match.view, places, TensorRef(unique, 0), _HASHING) is not None


_PLACES = tensor("places")
SCATTERED: Pattern = one_of(
    *[
        op(
            reduction,
            op("Reshape", rows_of(_PLACES), ANY),
            op("Unique", tensor("ids"))[1],
            ANY,
        )
        .where(_are_hashes, "places hashed from the ids")
        .gives(combiner=combiner)
        for reduction, combiner in SEGMENT_REDUCTIONS.items()
    ]
)
