"""Lookups in tables that are sharded across ranks: one exchange for all tables of a dtype.

Slices of columns are looked up as tables of their own, with the same ids. Tables that every rank
has need no exchange: each rank gets the gradients of its own bags, as those of dense variables.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from graph_opt.compat import tf
from graph_opt.compat.eager import handle_of
from graph_opt.export.users_graph import export_users_graph
from graph_opt.ops.exchange import AllToAll, exchange_lookup
from graph_opt.ops.group_embedding import NO_DEFAULT, GroupAttributes, GroupIds
from graph_opt.ops.packed_embedding import ShardPlacement
from graph_opt.ops.stock_lookup import LookupIds
from graph_opt.sharding.guard import guard_graph, guarded_eagerly
from graph_opt.sharding.input_end import dropping_rest, ended_flag, waits_for_all
from graph_opt.sharding.key_placement import RowsByKey
from graph_opt.sharding.placement import (
    DIV,
    MOD,
    DivRows,
    ReplicatedRows,
    RowsOnRank,
    RowsRule,
    TablePlacement,
)
from graph_opt.sharding.transport import OneRank, Transport

_SCOPE = "graph_opt/"


class ShardedTable(NamedTuple):
    """A table of which this rank has a part.

    Attributes:
      name: The same on all ranks.
      part: The variable with this rank's part, [rows, width]; no rows if it has none. Tables that
        other ranks have may be given a variable with rows of this rank's, which is then not read.
        With `RowsByKey` a dynamic table.
      rows: How rows are divided. With `ReplicatedRows`, every rank looks up in its own copy.
      width: Number of columns.
    """

    name: str
    part: Any
    rows: RowsRule
    width: int


class ColumnSlices(NamedTuple):
    """A table whose columns are divided, from left to right, as tables with the same rows.

    Attributes:
      name: The same on all ranks.
      slices: Each a table of some columns.
    """

    name: str
    slices: Sequence[ShardedTable]


class TableLookup(NamedTuple):
    """One lookup.

    Attributes:
      table: The table.
      ids: What this rank looks up; any number of bags. Of tables by key any numbers.
      combiner: `sum`, `mean` or `sqrtn`.
      insert: Of a table by key, whether keys without a row get one, rather than read what others
        would begin with: a bool, or a tensor. The same in all lookups of a table.
      filtered: Of a table by key, whether its filter chooses the new keys that get rows; else all
        do, and nothing is counted.
    """

    table: Union[ShardedTable, ColumnSlices]
    ids: LookupIds
    combiner: str
    insert: Any = True
    filtered: bool = True


class _Piece(NamedTuple):
    """A lookup in a slice of a table."""

    lookup: int
    table: ShardedTable
    handle: tf.Tensor


class _Kind(NamedTuple):
    """What the tables of an exchange have in common."""

    dtype: Any
    is_resource: bool
    stays: bool  # on this rank
    filtered: bool


def table_of(placement: TablePlacement, parts: Sequence[Any]) -> Union[ShardedTable, ColumnSlices]:
    """A table as it was placed.

    Args:
      placement: Where the table is.
      parts: This rank's part of each slice: variables of the shapes `Slice.shape_on(rank)`.

    Example:
      >>> placement = by_columns("items", (1000, 16), transport.size, ranks=[0, 1])
      >>> parts = [tf.Variable(tf.zeros(one.shape_on(transport.rank))) for one in placement.slices]
      >>> items = table_of(placement, parts)
    """
    slices = [
        ShardedTable(placement.name, part, of_columns.rows, of_columns.width)
        for of_columns, part in zip(placement.slices, parts)
    ]
    return slices[0] if len(slices) == 1 else ColumnSlices(placement.name, slices)


@tf.autograph.experimental.do_not_convert
def look_up(
    lookups: Sequence[TableLookup],
    transport: Transport,
    safe: bool = False,
    wire: Optional[Any] = None,
) -> List[tf.Tensor]:
    """Pools rows, wherever they are. All ranks must make the same lookups in the same order.

    Args:
      lookups: What is looked up.
      transport: How to reach the other ranks; with one rank nothing is sent.
      safe: Whether to drop ids < 0 and weights that are not > 0, as
        `tf.nn.safe_embedding_lookup_sparse` does. A bag without ids gives zeros either way.
      wire: Dtype in which rows and their gradients travel; None: that of the table.

    Returns:
      [B, D] for each lookup, of its table's dtype. Gradients of the tables are IndexedSlices with
      this rank's rows, or keys, summed over ranks in their order. Those of replicated tables are of
      this rank's bags only: reduce them as those of dense variables.

    Raises:
      ValueError: A table is not sharded across these ranks, a part has another shape, or lookups of
        a table by key do not agree on whether to insert.
    """
    handles: Dict[int, tf.Tensor] = {}
    groups: Dict[Any, List[_Piece]] = {}
    for place, lookup in enumerate(lookups):
        for table in _slices(lookup.table):
            _check(table, transport)
            if id(table.part) not in handles:
                handles[id(table.part)] = handle_of(table.part)
            piece = _Piece(place, table, handles[id(table.part)])
            kind = _kind(piece, lookup.filtered, transport)
            groups.setdefault(kind, []).append(piece)
    pooled: List[List[tf.Tensor]] = [[] for _ in lookups]
    for kind, pieces in groups.items():
        results = _exchange(
            lookups, pieces, kind, OneRank() if kind.stays else transport, safe, wire
        )
        for piece, result in zip(pieces, results):
            pooled[piece.lookup].append(result)
    return [one[0] if len(one) == 1 else tf.concat(one, axis=1) for one in pooled]


def _exchange(
    lookups: Sequence[TableLookup],
    pieces: Sequence[_Piece],
    kind: _Kind,
    transport: Transport,
    safe: bool,
    wire: Optional[Any],
) -> List[tf.Tensor]:
    dtype = kind.dtype
    of_parts = {_key(piece.table): piece for piece in pieces}
    order = list(of_parts)
    tables = [piece.table for piece in of_parts.values()]
    rules = [table.rows for table in tables]
    ids = [lookups[piece.lookup].ids for piece in pieces]
    attributes = GroupAttributes(
        lookup_tables=[order.index(_key(piece.table)) for piece in pieces],
        table_shards=[len(_ranks(rule, transport)) for rule in rules],
        table_names=[table.name for table in tables],
        combiners=[lookups[piece.lookup].combiner for piece in pieces],
        layouts=[one.layout for one in ids],
        weighted=[one.weights is not None for one in ids],
        default_ids=[NO_DEFAULT] * len(pieces),
        partition_strategies=[_strategy(rule) for rule in rules],
        safe=safe,
        filled_ids=[_filled_id(piece.table) for piece in pieces] if safe else [],
    )
    placement = ShardPlacement(
        rows=[rule.num_local_rows(rank) for rule in rules for rank in _ranks(rule, transport)],
        servers=[rank for rule in rules for rank in _ranks(rule, transport)],
        num_servers=transport.size,
    )
    inputs = GroupIds(
        ids=[one.ids for one in ids],
        positions=[one.positions for one in ids],
        shapes=[one.shape for one in ids],
        weights=[one.weights for one in ids if one.weights is not None],
    )
    base = "graph_opt_exchange"
    name = base if transport.size == 1 else transport.message_name(base)
    guard_graph(transport)
    if not tf.executing_eagerly():
        export_users_graph(tf.get_default_graph())
    with tf.name_scope(_SCOPE), guarded_eagerly(transport):
        ended = ended_flag(ids, transport)
        return exchange_lookup(
            [piece.handle for piece in of_parts.values()],
            inputs,
            attributes,
            placement,
            transport.rank,
            [table.width for table in tables],
            [dtype] * len(tables),
            _travelling_as(dropping_rest(transport, ended), dtype, wire),
            name,
            ended if waits_for_all(transport) else None,
            transport.place,
            _inserts(lookups, pieces, tables),
            kind.filtered,
        )


def _inserts(
    lookups: Sequence[TableLookup], pieces: Sequence[_Piece], tables: Sequence[ShardedTable]
) -> List[Any]:
    """Of each table by key, whether new keys get rows; empty if they do everywhere."""
    found: List[Any] = []
    for table in tables:
        if not isinstance(table.rows, RowsByKey):
            continue
        of_lookups = [
            lookups[piece.lookup].insert for piece in pieces if _key(piece.table) == _key(table)
        ]
        if any(one is not of_lookups[0] for one in of_lookups):
            raise ValueError(
                "lookups of table {!r} differ in `insert`: make them in calls of their own".format(
                    table.name
                )
            )
        found.append(of_lookups[0])
    return [] if all(one is True for one in found) else found


def _travelling_as(all_to_all: AllToAll, dtype: Any, wire: Optional[Any]) -> AllToAll:
    """Rows travel in another dtype than the tables'; ids do not."""
    if wire in (None, dtype):
        return all_to_all

    def send(tensor: tf.Tensor, splits: tf.Tensor, name: str) -> Tuple[tf.Tensor, tf.Tensor]:
        if tensor.dtype != dtype:
            return all_to_all(tensor, splits, name)
        received, received_splits = all_to_all(tf.cast(tensor, wire), splits, name)
        return tf.cast(received, dtype), received_splits

    return send


def _key(table: ShardedTable) -> Tuple[int, RowsRule]:
    """Which part of which variable it is: lookups of the same are of one table."""
    return id(table.part), table.rows


def _kind(piece: _Piece, filtered: bool, transport: Transport) -> _Kind:
    stays = isinstance(piece.table.rows, ReplicatedRows) or transport.size == 1
    dtype = piece.table.part.dtype.base_dtype
    return _Kind(dtype, piece.handle.dtype == tf.resource, stays, filtered)


def _slices(table: Union[ShardedTable, ColumnSlices]) -> Sequence[ShardedTable]:
    return table.slices if isinstance(table, ColumnSlices) else [table]


def _ranks(rule: RowsRule, transport: Transport) -> Sequence[int]:
    """The ranks with a shard, in the order in which the ops number shards."""
    if transport.size == 1:
        return [0]
    if isinstance(rule, RowsByKey) and rule.rank is not None:
        return [rule.rank]
    return [rule.rank] if isinstance(rule, RowsOnRank) else range(rule.num_ranks)


def _filled_id(table: ShardedTable) -> int:
    """The row that TensorFlow's safe lookups give a gradient of zero for a bag without ids."""
    return NO_DEFAULT if isinstance(table.rows, RowsByKey) else 0


def _strategy(rule: RowsRule) -> str:
    if isinstance(rule, RowsByKey):
        return rule.owner_rule
    return DIV if isinstance(rule, DivRows) else MOD


def _check(table: ShardedTable, transport: Transport) -> None:
    if table.rows.num_ranks != transport.size:
        raise ValueError(
            "table {!r} is sharded across {} ranks, but there are {}".format(
                table.name, table.rows.num_ranks, transport.size
            )
        )
    is_elsewhere = isinstance(table.rows, RowsOnRank) and table.rows.rank != transport.rank
    has_any_rows = is_elsewhere or isinstance(table.rows, RowsByKey)
    rows = None if has_any_rows else table.rows.num_local_rows(transport.rank)
    shape = [rows, table.width]
    if not table.part.shape.is_compatible_with(shape):
        raise ValueError(
            "the part of table {!r} on rank {} has shape {}; need {}".format(
                table.name, transport.rank, table.part.shape, shape
            )
        )
