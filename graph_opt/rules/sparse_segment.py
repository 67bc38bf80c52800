"""Rows combined by `SparseSegment*`: `embedding_lookup_sparse` without weights.

    classic  Unique(ids):0 -> gather -> [Cast] -> SparseSegmentMean(rows, Unique:1, segment ids)
    fast     SparseSegmentMean(table read, ids, segment ids)        TF 2.15 on, one device scope

The ids of a lookup are those given, before Unique.
"""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules import lookup as words
from graph_opt.rules.forward import ForwardPart
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.table import require_table

COMBINERS = {
    "SparseSegmentSum": "sum",
    "SparseSegmentMean": "mean",
    "SparseSegmentSqrtN": "sqrtn",
    "SparseSegmentSumWithNumSegments": "sum",
    "SparseSegmentMeanWithNumSegments": "mean",
    "SparseSegmentSqrtNWithNumSegments": "sqrtn",
}
_UNIQUE = frozenset(["Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2"])


def start(view: GraphView, name: str) -> Optional[Lookup]:
    """The lookup that a SparseSegment op is when it reads a table itself (fast), else None.

    Raises:
      Refusal: those of `table.require_table`.
    """
    params, ids = view.input(name, 0), view.input(name, 1)
    if params is None or ids is None:
        return None
    table = require_table(view, name, params)
    if table is None:
        return None
    return Lookup(
        api=words.EMBEDDING_LOOKUP_SPARSE,
        tables=(table,),
        ids=(ids,),
        output=TensorRef(name, 0),
        gathers=(name,),
        nodes=(name,),
        combiner=COMBINERS[view.op(name)],
    )


def grow(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[Lookup]:
    """The lookup of unique ids with its rows combined (classic)."""
    unique = unique_behind(view, lookup)
    if unique is None:
        return None
    for use, casts in uses_through_cast(view, lookup.output):
        name = use.consumer
        if use.slot != 0 or view.op(name) not in COMBINERS:
            continue
        if view.inputs(name)[1] != TensorRef(unique, 1):
            continue
        own = (*casts, name)
        inner = [lookup.output] + [TensorRef(cast, 0) for cast in casts]
        if not all(forward.stays_inside(tensor, own) for tensor in inner):
            return None
        return lookup.grown(
            name,
            (unique, *own),
            api=words.EMBEDDING_LOOKUP_SPARSE,
            ids=(view.inputs(unique)[0],),
            combiner=COMBINERS[view.op(name)],
        )
    return None


def unique_behind(view: GraphView, lookup: Lookup) -> Optional[str]:
    """The Unique whose values are the ids of a lookup that combines nothing yet."""
    ids = lookup.ids[0]
    found = lookup.combiner is None and ids.index == 0 and view.op(ids.node) in _UNIQUE
    return ids.node if found else None


def uses_through_cast(view: GraphView, rows: TensorRef) -> Iterator[Tuple[Use, Tuple[str, ...]]]:
    """Readers of the rows, directly or behind a Cast (rows of low precision), with that Cast."""
    for use in view.uses(rows):
        yield use, ()
        if view.op(use.consumer) == "Cast":
            for behind in view.uses(TensorRef(use.consumer, 0)):
                yield behind, (use.consumer,)
