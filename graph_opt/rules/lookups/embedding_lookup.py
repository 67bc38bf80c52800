"""`tf.nn.embedding_lookup`: one row for each id, from a whole table or from its shards.

    ids -> gather(table) [-> Identity ..]                                        whole table

    flat = Reshape(ids, [-1])                                                    P shards
    mod    shard = flat % P                row = flat // P
    div    shard = max(flat // (Q + 1), (flat - E) // Q)          Q = V // P, E = V % P
           row = shard < E ? flat % (Q + 1) : (flat - E) % Q
    key      shard = flat % P              row = flat                  dynamic tables, by key
    key1000  shard = flat % 1000 % P       row = flat
    DynamicStitch(DynamicPartition(range, shard), gather k of DynamicPartition(row, shard):k)
        -> Reshape to ids.shape + [D]

Users' own ways of sharding (by a hash, say) do not match: each shard is then a lookup. With
`max_norm`, rows of a whole table are clipped before the last Identity, rows of shards after they
are stitched.
"""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import TensorRef
from graph_opt.rules.lookup import Table
from graph_opt.rules.lookups import gather
from graph_opt.rules.match.computed import computed_from
from graph_opt.rules.match.matcher import Match
from graph_opt.rules.match.pattern import (
    ANY,
    Condition,
    Op,
    Pattern,
    constant,
    constant_of,
    integer,
    one_of,
    op,
    optional,
    tensor,
    through,
)
from graph_opt.rules.op_names import IDENTITIES, ROW_GATHERS, SELECTS, STITCHES

# Ops between rows and their norm; Range and Rank occur if the rank is unknown.
_CLIPPING = frozenset(
    [
        "Add", "AddV2", "Cast", "Const", "Fill", "Greater", "Maximum", "Mul", "OnesLike", "Range",
        "Rank", "RealDiv", "Select", "SelectV2", "Shape", "Sqrt", "Square", "Sub", "Sum",
    ]
)  # fmt: skip


def rows_of(ids: Pattern) -> Pattern:
    """The rows of a table that ids select: [K, D] or ids.shape + [D]."""
    rows = through(IDENTITIES, one_of(_Stitched(ids), _Gathered(ids)))
    return through(IDENTITIES, one_of(clipped(rows), rows))


def clipped(rows: Pattern) -> Pattern:
    """`tf.clip_by_norm` of rows to a constant norm, without its final Identity."""
    quotient = op("RealDiv", op("Mul", rows, ANY), op("Maximum", ANY, ANY))
    need = "rows clipped to a constant norm"
    return quotient.where(_is_clipping(rows), need).gives(max_norm=True)


def _is_clipping(rows: Pattern) -> Condition:
    def holds(match: Match, tensor: TensorRef) -> bool:
        nodes = computed_from(match.view, tensor, match.places[rows], _CLIPPING)
        for node in nodes or ():
            match.note(match.nodes, node, None)
        return nodes is not None

    return holds


class _Gathered(Pattern):
    """Rows that a gather reads from a variable, which is recorded in the match."""

    def __init__(self, ids: Pattern) -> None:
        self._ids = ids

    @property
    def ops(self) -> Any:
        return ROW_GATHERS

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        view = match.view
        if tensor.index != 0 or view.op(tensor.node) not in ROW_GATHERS:
            return match.mismatch(tensor, "rows of a table")
        try:
            started = gather.start(view, tensor.node)
        except Refusal as refusal:
            return match.mismatch(tensor, refusal.need, refusal.saw)
        if started is None:
            return match.mismatch(tensor, "rows of a table")
        match.note(match.tables, tensor.node, started.tables[0])
        match.note(match.nodes, tensor.node, None)
        return self._ids.match(match, view.inputs(tensor.node)[1])


class _Stitched(Pattern):
    """Rows of P shards; the pattern is built once the graph has shown P."""

    def __init__(self, ids: Pattern) -> None:
        self._ids = ids

    @property
    def ops(self) -> Any:
        return frozenset(["Reshape"])

    def fits(self, match: Match, tensor: TensorRef) -> bool:
        view = match.view
        stitch = view.inputs(tensor.node)[0].node if view.op(tensor.node) == "Reshape" else ""
        if not stitch or view.op(stitch) not in STITCHES:
            return match.mismatch(tensor, "a Reshape of stitched rows")
        rows = view.inputs(stitch)[len(view.inputs(stitch)) // 2 :]
        tables = [_table_behind(match, part) for part in rows]
        found = tuple(table for table in tables if table is not None)
        if len(found) != len(rows):
            return match.mismatch(tensor, "stitched rows of tables alone")
        width = found[0].row_shape
        if all(table.is_dynamic for table in found):
            return _sharded_by_key(self._ids, len(found), width).match(match, tensor)
        counts = tuple(table.shape[0] if table.shape else None for table in found)
        return _sharded(self._ids, counts, width).match(match, tensor)


def _table_behind(match: Match, rows: TensorRef) -> Optional[Table]:
    """The variable that a shard's rows are read from."""
    shard = Match(match.view)
    through(IDENTITIES, _Gathered(ANY)).match(shard, rows)
    return next(iter(shard.tables.values()), None)


@functools.lru_cache(maxsize=256)
def _sharded(
    ids: Pattern, counts: Tuple[Optional[int], ...], width: Optional[Tuple[Optional[int], ...]]
) -> Pattern:
    """Rows of shards of this width, given the number of rows of each."""
    return one_of(
        _of_strategy(ids, counts, width, "mod").gives(strategy="mod"),
        _of_strategy(ids, counts, width, "div").gives(strategy="div"),
    )


@functools.lru_cache(maxsize=256)
def _sharded_by_key(
    ids: Pattern, number: int, width: Optional[Tuple[Optional[int], ...]]
) -> Pattern:
    """Rows of this many parts of a dynamic table."""
    flat = op("Reshape", ids, constant([-1]))
    buckets = op("FloorMod", flat, integer(1000))
    return one_of(
        *[
            _stitched(ids, width, number, flat, op("FloorMod", key, integer(number)), flat).gives(
                strategy=strategy
            )
            for strategy, key in (("key1000", buckets), ("key", flat))
        ]
    )


def _of_strategy(
    ids: Pattern,
    counts: Tuple[Optional[int], ...],
    width: Optional[Tuple[Optional[int], ...]],
    strategy: str,
) -> Pattern:
    flat = op("Reshape", ids, constant([-1]))
    shard, row = _mod(flat, len(counts)) if strategy == "mod" else _div(flat, counts)
    return _stitched(ids, width, len(counts), flat, shard, row)


def _stitched(
    ids: Pattern,
    width: Optional[Tuple[Optional[int], ...]],
    number: int,
    flat: Pattern,
    shard: Pattern,
    row: Pattern,
) -> Pattern:
    """Rows of `number` shards, given which of them has each of the flat ids, in which row."""
    shard = optional("Cast", shard)
    parts = op("DynamicPartition", row, shard, num_partitions=number)
    # A constant size must be right, or DynamicPartition would fail.
    size = one_of(op("Size", flat), constant_of(lambda value: True, "a number of ids"))
    every = op("Range", constant(0), size, constant(1))
    places = op("DynamicPartition", every, shard, num_partitions=number)
    gathers: List[Pattern] = [
        through(IDENTITIES, _Gathered(parts[index])) for index in range(number)
    ]
    stitch = op(STITCHES, *[places[index] for index in range(number)], *gathers)
    return op("Reshape", stitch, _outer_shape_and_width(ids, width))


def _mod(flat: Pattern, number: int) -> Tuple[Pattern, Pattern]:
    return op("FloorMod", flat, integer(number)), op("FloorDiv", flat, integer(number))


def _div(flat: Pattern, counts: Tuple[Optional[int], ...]) -> Tuple[Pattern, Pattern]:
    """(shard, row) of each id."""
    known = [count for count in counts if count is not None]
    piece, longer, long_piece = ANY, ANY, ANY
    if len(known) == len(counts):
        smaller, extra = divmod(sum(known), len(counts))
        piece, longer, long_piece = integer(smaller), integer(extra), integer(smaller + 1)
    shard = op(
        "Maximum",
        op("FloorDiv", flat, long_piece),
        op("FloorDiv", op("Sub", flat, longer), piece),
    )
    row = op(
        SELECTS,
        op("Less", shard, longer),
        op("FloorMod", flat, long_piece),
        op("FloorMod", op("Sub", flat, longer), piece),
    )
    return shard, row


def _outer_shape_and_width(ids: Pattern, width: Optional[Tuple[Optional[int], ...]]) -> Op:
    """The vector ids.shape + [D]."""
    table_width = ANY if width is None or None in width else constant(list(width))
    return op("ConcatV2", shape_of(ids), table_width, constant(0))


def shape_of(source: Pattern) -> Pattern:
    """The shape of a tensor that has already been matched, as a Shape or a Const."""
    static = constant_of(lambda value: value.ndim == 1, "a shape").where(
        _is_shape_of(source), "the shape of what it is made for"
    )
    return one_of(op("Shape", source), static)


def _is_shape_of(source: Pattern) -> Condition:
    def holds(match: Match, tensor: TensorRef) -> Optional[bool]:
        place = match.places.get(source)
        shape = None if place is None else match.view.shape(place)
        value = match.view.constant(tensor)
        if shape is None or value is None:
            return None
        return list(value) == list(shape)

    return holds


def _waits_for_nothing(match: Match, tensor: TensorRef) -> bool:
    return not match.view.controls(tensor.node)


def _named(rows: Pattern) -> Pattern:
    """Clipped rows, with the Identity that names the result if there is one."""
    quotient = clipped(rows)
    named = op("Identity", quotient).where(_waits_for_nothing, "an Identity that waits for nothing")
    return one_of(named, quotient)


_IDS = tensor("ids")
SHARDED: Pattern = one_of(_named(_Stitched(_IDS)), _Stitched(_IDS))
CLIPPED: Pattern = _named(through(IDENTITIES, _Gathered(_IDS)))
