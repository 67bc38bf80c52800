"""The gradients of lookups of dynamic tables as IndexedSlices whose indices are keys.

    keys ──> Unique ──> places ──> GroupEmbeddingGrad ──> places ──> GatherV2 ──> keys
                └── unique keys ──────────────────────────────────────┘

The op that sums gradients by row takes the places of keys among the unique ones for rows: keys may
be any numbers, and have rows on the table's device alone. In a table of P parts, the place u of a
key of part p is row u of part p, id u * P + p.
"""

from __future__ import annotations

from typing import List, NamedTuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.passes import attribute_values as values
from graph_opt.passes.fusion.candidates import Candidate
from graph_opt.passes.fusion.group_nodes import GroupNodes, output_name
from graph_opt.passes.node_writer import NodeWriter

_INT32 = tf.int32.as_datatype_enum
_INT64 = tf.int64.as_datatype_enum
_BUCKETS = {"key1000": 1000}


class PlacesOfKeys(NamedTuple):
    """The keys of one lookup, numbered.

    Attributes:
      ids: For each key, its place among the unique ones, as an id of a partitioned table; -1 for
        keys that the lookup drops.
      keys: The unique keys.
      dtype: Their DataType number.
      size: Their number, an int64 scalar.
    """

    ids: str
    keys: str
    dtype: int
    size: str


def write_places(nodes: GroupNodes, candidate: Candidate, device: str) -> PlacesOfKeys:
    """Numbers the keys of a lookup.

    Args:
      nodes: Collects the nodes.
      candidate: A lookup of a dynamic table.
      device: The device of the nodes.
    """
    keys, dtype = nodes.ids(candidate, device)
    writer = nodes.writer("places", device)
    of_keys = tf.AttrValue(type=dtype)
    inputs = [keys, *candidate.waits_for_rows]
    unique = writer.node("unique", "Unique", inputs, T=of_keys, out_idx=tf.AttrValue(type=_INT64))
    count = writer.node("count", "Size", [unique.name], T=of_keys, out_type=_of(_INT64))
    ids = output_name(unique.name, 1)
    if len(candidate.tables) > 1:
        ids = _with_parts(writer, candidate, ids, keys, dtype)
    if candidate.inputs.safe:
        ids = _without_negative(writer, ids, keys, dtype)
    return PlacesOfKeys(ids, str(unique.name), dtype, str(count.name))


def write_table_rows(writer: NodeWriter, rows: List[str]) -> str:
    """One vector of numbers of rows: scalars, int64."""
    return str(
        writer.node(
            "table_rows",
            "Pack",
            rows,
            N=values.integer(len(rows)),
            T=_of(_INT64),
            axis=values.integer(0),
        ).name
    )


def write_keys(writer: NodeWriter, places: PlacesOfKeys, indices: str, number: int) -> str:
    """The keys of some places."""
    axis = writer.constant("axis_{}".format(number), np.int32(0))
    return str(
        writer.node(
            "keys_{}".format(number),
            "GatherV2",
            [places.keys, indices, axis],
            Tparams=_of(places.dtype),
            Tindices=_of(_INT64),
            Taxis=_of(_INT32),
            _output_shapes=values.shapes([(None,)]),
        ).name
    )


def _with_parts(
    writer: NodeWriter, candidate: Candidate, places: str, keys: str, dtype: int
) -> str:
    """Places * P + part."""
    parts = len(candidate.tables)
    part, buckets = keys, _BUCKETS.get(candidate.inputs.partition_strategy)
    for number, divisor in enumerate([parts] if buckets is None else [buckets, parts]):
        by = writer.constant("divisor_{}".format(number), _integer(divisor, dtype))
        name = "remainder_{}".format(number)
        part = writer.node(name, "FloorMod", [part, by], T=_of(dtype)).name
    if dtype != _INT64:
        part = writer.node("part", "Cast", [part], SrcT=_of(dtype), DstT=_of(_INT64)).name
    by = writer.constant("parts", np.int64(parts))
    first = writer.node("first", "Mul", [places, by], T=_of(_INT64))
    return str(writer.node("id", "AddV2", [first.name, part], T=_of(_INT64)).name)


def _without_negative(writer: NodeWriter, places: str, keys: str, dtype: int) -> str:
    zero = writer.constant("zero", _integer(0, dtype))
    dropped = writer.node("dropped", "Less", [keys, zero], T=_of(dtype))
    none = writer.constant("none", np.int64(-1))
    return str(writer.node("kept", "SelectV2", [dropped.name, none, places], T=_of(_INT64)).name)


def _integer(number: int, dtype: int) -> np.generic:
    return np.int64(number) if dtype == _INT64 else np.int32(number)


def _of(dtype: int) -> object:
    return tf.AttrValue(type=dtype)
