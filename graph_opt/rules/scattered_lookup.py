"""`tf.contrib.layers.scattered_embedding_column` (TF 1.15): every id is hashed to D places.

    Unique(values):0 -> SparseFeatureCrossV2 -> SparseToDense = places [U, D] in a rank-1 table
    gather(places) -> Reshape -> SparseSegmentMean(rows, Unique:1, segment ids)

The ids of such a lookup are the values, before they are hashed.
"""

from __future__ import annotations

from typing import Optional

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as words
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.sparse_segment import COMBINERS

# Hashing: from the unique values to their places in the table.
_HASHING = frozenset(
    [
        "SparseToDense", "SparseFeatureCrossV2", "SparseFeatureCross", "Cast", "Tile", "Reshape",
        "Shape", "StridedSlice", "Pack", "ExpandDims", "Range", "Prod", "ConcatV2", "Const",
        "Identity", "Size",
    ]
)  # fmt: skip
_LARGEST_PATTERN = 40


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The lookup of hashed places with its rows combined."""
    if lookup.combiner is not None or view.op(lookup.ids[0].node) != "SparseToDense":
        return None
    for use in view.uses(lookup.output):
        reshape = use.consumer
        if use.slot == 0 and view.op(reshape) == "Reshape":
            return _combined(view, forward, lookup, reshape)
    return None


def _combined(
    view: GraphView, forward: ForwardPart, lookup: Lookup, reshape: str
) -> Optional[Lookup]:
    rows = TensorRef(reshape, 0)
    for use in view.uses(rows):
        name = use.consumer
        if use.slot != 0 or view.op(name) not in COMBINERS:
            continue
        unique = view.inputs(name)[1]
        if view.op(unique.node) != "Unique" or unique.index != 1:
            return None
        own = (reshape, name)
        if not _hashes(view, lookup.ids[0], TensorRef(unique.node, 0)):
            return None
        if not all(forward.stays_inside(tensor, own) for tensor in (lookup.output, rows)):
            return None
        return lookup.grown(
            name,
            (unique.node, *own),
            api=words.SCATTERED_EMBEDDING_LOOKUP_SPARSE,
            ids=(view.inputs(unique.node)[0],),
            combiner=COMBINERS[view.op(name)],
        )
    return None


def _hashes(view: GraphView, places: TensorRef, values: TensorRef) -> bool:
    """Whether `places` is computed from `values` and constants alone."""
    seen = {places.node}
    stack = [places.node]
    reached = False
    while stack:
        for tensor in view.inputs(stack.pop()):
            if tensor == values:
                reached = True
                continue
            if tensor.node in seen:
                continue
            if view.op(tensor.node) not in _HASHING or len(seen) > _LARGEST_PATTERN:
                return False
            seen.add(tensor.node)
            stack.append(tensor.node)
    return reached
