"""Rows read from a table: the start of every lookup that consists of TensorFlow's ops.

    table read, ids -> Gather | GatherV2 | ResourceGather | GatherNd | ResourceGatherNd
                    -> DynamicTableLookup       table.sparse_read of a dynamic table
                    -> Identity                 tf.nn.embedding_lookup, Keras Embedding
                    -> Identity -> Identity     the same on resource variables, TF 1.15

The Identity nodes belong to the lookup, whose output is the last of them. TensorFlow 2's
SparseSegment ops, which read a table themselves, start a lookup as well.
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup
from graph_opt.rules.match.forward import ForwardPart
from graph_opt.rules.match.table import require_table
from graph_opt.rules.op_names import (
    COMBINERS,
    DYNAMIC_LOOKUP,
    GATHERS_ND,
    IDENTITIES,
    ROW_GATHERS,
)

STARTS = ROW_GATHERS | GATHERS_ND
_MAX_IDENTITIES = 2


def start(view: GraphView, name: str) -> Optional[Lookup]:
    """The lookup that consists of node `name` alone, or None if the node reads no table.

    A gather gives bare rows; a SparseSegment op that reads a table itself gives combined ones.

    Raises:
      Refusal: gather_not_by_row, and those of `table.require_table`.
    """
    params, ids = view.input(name, 0), view.input(name, 1)
    if params is None or ids is None:
        return None
    table = require_table(view, name, params)
    if table is None:
        return None
    if view.op(name) not in COMBINERS:
        _require_rows(view, name)
    return Lookup(
        api=_api(view, name),
        tables=(table,),
        ids=(ids,),
        output=TensorRef(name, 0),
        gathers=(name,),
        nodes=(name,),
        combiner=COMBINERS.get(view.op(name)),
        given={"ids": ids},
    )


def with_identities(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Lookup:
    """Bare rows, clipped or not, with the Identity nodes that `tf.nn.embedding_lookup` adds."""
    for _ in range(_MAX_IDENTITIES):
        following = _next_identity(view, forward, lookup)
        if following is None:
            break
        api = apis.EMBEDDING_LOOKUP if lookup.api == apis.GATHER else lookup.api
        lookup = lookup.extended(following, (following,), api=api)
    return _trimmed(view, lookup)


def _next_identity(view: GraphView, forward: ForwardPart, lookup: Lookup) -> Optional[str]:
    """The Identity that is the output's only reader, if it waits for nothing else."""
    for use in view.uses(lookup.output):
        name = use.consumer
        if view.op(name) not in IDENTITIES or view.controls(name):
            continue
        return name if forward.stays_inside(lookup.output, (name,)) else None
    return None


def _trimmed(view: GraphView, lookup: Lookup) -> Lookup:
    """The lookup of bare rows without trailing Identity nodes that are the user's own.

    `tf.nn.embedding_lookup` colocates everything but its last Identity with the table; `tf.gather`
    colocates nothing and adds no Identity (in 1.15 it adds one, which need not move).
    """
    identities = _trailing_identities(view, lookup)
    colocated = [_is_colocated(view, name) for name in identities]
    if _is_colocated(view, lookup.gathers[0]):
        kept = colocated.index(False) + 1 if False in colocated else len(identities)
    else:
        # clip_by_norm, and tf.gather_nd of a resource variable, end with their own Identity.
        own = lookup.max_norm or view.op(lookup.gathers[0]) == "ResourceGatherNd"
        kept = 1 if own else 0
    if kept >= len(identities):
        return lookup
    last = identities[kept - 1] if kept else lookup.gathers[0]
    dropped = identities[kept:]
    return dataclasses.replace(
        lookup,
        api=lookup.api if kept else _api(view, lookup.gathers[0]),
        output=TensorRef(last, 0),
        nodes=tuple(name for name in lookup.nodes if name not in dropped),
    )


def _trailing_identities(view: GraphView, lookup: Lookup) -> List[str]:
    """The Identity nodes that the lookup ends with, in order of computation."""
    found: List[str] = []
    name = lookup.output.node
    while view.op(name) in IDENTITIES and name in lookup.nodes:
        found.insert(0, name)
        name = view.inputs(name)[0].node
    return found


def _is_colocated(view: GraphView, name: str) -> bool:
    return view.attribute(name, "_class") is not None


def _api(view: GraphView, name: str) -> str:
    if view.op(name) in COMBINERS:
        return apis.EMBEDDING_LOOKUP_SPARSE
    if view.op(name) == DYNAMIC_LOOKUP:
        return apis.EMBEDDING_LOOKUP
    return apis.GATHER_ND if view.op(name) in GATHERS_ND else apis.GATHER


def _require_rows(view: GraphView, name: str) -> None:
    axis = view.input(name, 2) if view.op(name) == "GatherV2" else None
    if axis is not None:
        value = view.constant(axis)
        if value is None or int(value) != 0:
            raise _not_by_row(name, "axis {}".format("computed" if value is None else value))
    batch_dims = view.attribute(name, "batch_dims")
    if batch_dims is not None and batch_dims.i != 0:
        raise _not_by_row(name, "batch_dims {}".format(batch_dims.i))


def _not_by_row(name: str, saw: str) -> Refusal:
    return Refusal("gather_not_by_row", at=name, need="axis 0 and batch_dims 0", saw=saw)
