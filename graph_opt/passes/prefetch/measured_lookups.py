"""Lookups that run ahead and whose rows can be read again, to tell how old they are."""

from __future__ import annotations

import dataclasses
from typing import (
    AbstractSet,
    Container,
    Dict,
    FrozenSet,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import value_dtype
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.prefetch.region import PrefetchRegion
from graph_opt.rules import lookup as apis
from graph_opt.rules.lookup import Lookup, Table, tables_apart

_APIS = frozenset(
    [
        apis.EMBEDDING_LOOKUP, apis.EMBEDDING_LOOKUP_SPARSE, apis.SAFE_EMBEDDING_LOOKUP_SPARSE,
        apis.GROUP_EMBEDDING_LOOKUP_SPARSE, apis.GATHER,
    ]
)  # fmt: skip
_ID_TYPES = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)
_VALUE_TYPES = tuple(each.as_datatype_enum for each in (tf.float32, tf.half, tf.bfloat16))
_MANY_ROWS = 1 << 62  # of a table whose size is unknown, and whose ids therefore are its rows


@dataclasses.dataclass(frozen=True)
class MeasuredTable:
    """A table of which it is told how old the rows are that steps use.

    Attributes:
      shards: Its variables.
      rows: How many rows each has.
      strategy: How ids are spread over them: `mod` or `div`.
      uncounted: Why missed updates are not counted; "" if they are.
    """

    shards: Tuple[str, ...]
    rows: Tuple[int, ...]
    strategy: str
    uncounted: str = ""

    @property
    def name(self) -> str:
        """What reports call it."""
        first = self.shards[0]
        return first[: -len("/part_0")] if first.endswith("/part_0") else first


@dataclasses.dataclass(frozen=True)
class Part:
    """Columns of what a lookup returns.

    Attributes:
      value: The tensor.
      table: Number of the table that they come from.
      column: The first of them.
      width: How many there are; -1: all.
      ids: What was looked up.
    """

    value: TensorRef
    table: int
    column: int
    width: int
    ids: TensorRef


@dataclasses.dataclass(frozen=True)
class MeasuredRegion:
    """The lookups of one batch source that are read again in sampled steps.

    Attributes:
      source: The node that returns the batches.
      tables: What they look up.
      parts: What they return.
      nodes: The lookups' nodes.
      inputs: What these nodes read of the batch.
      position: The node that tells how many updates each table had before they ran; set once it is
        there.
    """

    source: str
    tables: Tuple[MeasuredTable, ...]
    parts: Tuple[Part, ...]
    nodes: FrozenSet[str]
    inputs: Tuple[TensorRef, ...]
    position: str = ""


@dataclasses.dataclass(frozen=True)
class SampledStage:
    """What a session runs to sample a stage.

    Attributes:
      stage: Its name.
      first: The placeholder of the number of the table to begin with.
      missed: [tables, n]. The tensor with how many rows missed 0, 1, 2, ... updates.
      squares: [tables, 2]. That with the squares of what rows differ by, and of the rows.
      measured: [tables]. That which says whose turn it was.
      tables: The names of the tables.
      uncounted: For each table why missed updates are not counted; "" if they are.
    """

    stage: str
    first: str
    missed: str
    squares: str
    measured: str
    tables: Tuple[str, ...]
    uncounted: Tuple[str, ...]


class Sampling(NamedTuple):
    """How old rows are told to be that lookups have read ahead.

    Attributes:
      regions: The lookups of which it can be told.
      stages: What sessions run to tell it.
    """

    regions: Tuple[MeasuredRegion, ...] = ()
    stages: Tuple[SampledStage, ...] = ()


def measured_region(
    view: GraphView,
    region: PrefetchRegion,
    reached: AbstractSet[str],
    bounded: Container[str] = frozenset(),
) -> Optional[MeasuredRegion]:
    """What can be measured of a region; None if nothing can be.

    Args:
      view: The graph.
      region: What moves.
      reached: The nodes that some batch reaches.
      bounded: The variables whose rows are refreshed.
    """
    lookups = [lookup for lookup in region.lookups if _may_measure(view, region, lookup)]
    nodes = frozenset(name for lookup in lookups for name in lookup.nodes)
    inputs = list(
        dict.fromkeys(
            tensor
            for name in sorted(nodes)
            for tensor in view.inputs(name)
            if tensor.node not in nodes and tensor.node in reached
        )
    )
    # Lookups of what other lookups return would have to wait for these.
    if not nodes.isdisjoint(view.ancestors(tensor.node for tensor in inputs)):
        return None
    numbers: Dict[Tuple[str, ...], int] = {}
    tables: List[MeasuredTable] = []
    parts: List[Part] = []
    for lookup in lookups:
        for shards, ids, column, width in _looked_up(view, lookup):
            table = _table(lookup, shards)
            if table is None or shards[0].name in bounded or view.dtype(ids) not in _ID_TYPES:
                continue
            if table.shards not in numbers:
                numbers[table.shards] = len(tables)
                tables.append(table)
            parts.append(Part(lookup.output, numbers[table.shards], column, width, ids))
    if not parts:
        return None
    return MeasuredRegion(region.source, tuple(tables), tuple(parts), nodes, tuple(inputs))


def crossing(regions: Sequence[MeasuredRegion]) -> FrozenSet[TensorRef]:
    """What must cross with each batch, so that it can be looked up again."""
    found = {tensor for region in regions for tensor in region.inputs}
    found.update(part.ids for region in regions for part in region.parts)
    found.update(TensorRef(region.position, 0) for region in regions)
    return frozenset(found)


def _may_measure(view: GraphView, region: PrefetchRegion, lookup: Lookup) -> bool:
    dynamic = any(table.is_dynamic for table in lookup.tables)
    value = value_dtype(view.dtype(lookup.output) or 0)
    return (
        lookup.api in _APIS
        and not dynamic
        and not lookup.max_norm
        and value in _VALUE_TYPES
        and region.conditional.isdisjoint(lookup.nodes)
    )


def _looked_up(
    view: GraphView, lookup: Lookup
) -> List[Tuple[Tuple[Table, ...], TensorRef, int, int]]:
    """For each table that a lookup reads: its shards, ids, and the columns of the result."""
    if len(lookup.ids) == 1:
        return [(lookup.tables, lookup.ids[0], 0, -1)]
    node = lookup.output.node
    numbers = _integers(view, node, "lookup_tables")
    columns = _integers(view, node, "columns")
    if not len(numbers) == len(columns) == len(lookup.ids):
        return []
    by_number = dict(zip(sorted(set(numbers)), tables_apart(lookup.tables)))
    found = []
    for number, ids, column in zip(numbers, lookup.ids, columns):
        shards = by_number[number]
        width = (shards[0].row_shape or (None,))[-1]
        if width is not None:
            found.append((shards, ids, column, width))
    return found


def _table(lookup: Lookup, shards: Tuple[Table, ...]) -> Optional[MeasuredTable]:
    names = tuple(shard.name for shard in shards)
    if len(shards) == 1:
        return MeasuredTable(names, (_MANY_ROWS,), "mod")
    rows = [shard.shape[0] if shard.shape else None for shard in shards]
    known = tuple(count for count in rows if count is not None)
    if len(known) < len(rows) or lookup.partition_strategy not in ("mod", "div"):
        return None
    return MeasuredTable(names, known, lookup.partition_strategy)


def _integers(view: GraphView, name: str, key: str) -> List[int]:
    value = view.attribute(name, key)
    return [] if value is None else [int(number) for number in value.list.i]
