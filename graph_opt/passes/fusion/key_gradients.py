"""The gradients of lookups of dynamic tables as IndexedSlices whose indices are keys.

    keys ──> Unique ──> places ──> GroupEmbeddingGrad ──> places ──> GatherV2 ──> keys
                └── unique keys ──────────────────────────────────────┘

The op that sums gradients by row takes the places of keys among the unique ones for rows: keys may
be any numbers, and have rows on the table's device alone. In a table of P parts, the place u of a
key of part p is row u of part p, id u * P + p.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.graph.op_call import Tensor
from graph_opt.passes.fusion.candidates import Candidate
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.node_writer import NodeWriter

_INT64 = tf.int64.as_datatype_enum
_BUCKETS = {"key1000": 1000}


class PlacesOfKeys(NamedTuple):
    """The keys of one lookup, numbered.

    Attributes:
      ids: For each key, its place among the unique ones, as an id of a partitioned table; -1 for
        keys that the lookup drops.
      keys: The unique keys.
      size: Their number, an int64 scalar.
    """

    ids: Tensor
    keys: Tensor
    size: Tensor


def write_places(nodes: GroupNodes, candidate: Candidate, device: str) -> PlacesOfKeys:
    """Numbers the keys of a lookup.

    Args:
      nodes: Collects the nodes.
      candidate: A lookup of a dynamic table.
      device: The device of the nodes.
    """
    keys = nodes.ids(candidate, device)
    writer = nodes.writer("places", device)
    unique = writer.call(
        "unique", "Unique", waits_for=candidate.waits_for_rows, x=keys, out_idx=_INT64
    )
    count = writer.call("count", "Size", input=unique.output("y"), out_type=_INT64).result
    ids = unique.output("idx")
    if len(candidate.tables) > 1:
        ids = _with_parts(writer, candidate, ids, keys)
    if candidate.inputs.safe:
        ids = _without_negative(writer, ids, keys)
    return PlacesOfKeys(ids, unique.output("y"), count)


def write_keys(writer: NodeWriter, places: PlacesOfKeys, indices: Tensor, number: int) -> Tensor:
    """The keys of some places."""
    return writer.call(
        "keys_{}".format(number),
        "GatherV2",
        params=places.keys,
        indices=indices,
        axis=writer.constant("axis_{}".format(number), np.int32(0)),
    ).result


def _with_parts(writer: NodeWriter, candidate: Candidate, places: Tensor, keys: Tensor) -> Tensor:
    """Places * P + part."""
    parts = len(candidate.tables)
    part, buckets = keys, _BUCKETS.get(candidate.inputs.partition_strategy)
    for number, divisor in enumerate([parts] if buckets is None else [buckets, parts]):
        by = writer.constant("divisor_{}".format(number), _integer(divisor, keys.dtype))
        part = writer.call("remainder_{}".format(number), "FloorMod", x=part, y=by).result
    if part.dtype != _INT64:
        part = writer.call("part", "Cast", x=part, DstT=_INT64).result
    by = writer.constant("parts", np.int64(parts))
    first = writer.call("first", "Mul", x=places, y=by).result
    return writer.call("id", "AddV2", x=first, y=part).result


def _without_negative(writer: NodeWriter, places: Tensor, keys: Tensor) -> Tensor:
    zero = writer.constant("zero", _integer(0, keys.dtype))
    dropped = writer.call("dropped", "Less", x=keys, y=zero).result
    none = writer.constant("none", np.int64(-1))
    return writer.call("kept", "SelectV2", condition=dropped, t=none, e=places).result


def _integer(number: int, dtype: int) -> np.generic:
    return np.int64(number) if dtype == _INT64 else np.int32(number)
