"""Chooses the tables that are sharded across ranks, and says why others are not.

A table can be sharded if ranks can exchange its rows and their gradients, and if nothing else reads
it, or a slot of it, whole. Of those, the options choose by size, by a budget, and by name.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.config.options import Ranks, ShardTablesOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.shard_tables.exchangeable import require_exchangeable
from graph_opt.passes.shard_tables.sharded_table import ShardedTable
from graph_opt.passes.shard_tables.variable_uses import variable_uses
from graph_opt.rules.find import find_lookups
from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.match.table import find_read
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, SparseUpdates, sparse_updates
from graph_opt.sharding.placement import ModRows


class Candidate(NamedTuple):
    """A table that lookups read.

    Attributes:
      table: The table.
      lookups: What reads its rows.
      slots: Its slots, as far as they are known.
      sharded: The table as it would be sharded; None if it cannot be.
      known: Nodes that look rows up in it or update it or its slots.
      refusal: Why it cannot be sharded.
    """

    table: Table
    lookups: Tuple[Lookup, ...]
    slots: Tuple[str, ...] = ()
    sharded: Optional[ShardedTable] = None
    known: FrozenSet[str] = frozenset()
    refusal: Optional[Refusal] = None

    @property
    def bytes(self) -> int:
        """Of the whole table and its slots, as far as its shape is known."""
        return _bytes(self.table) * (1 + len(self.slots))


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is sharded.

    Attributes:
      chosen: The tables to shard.
      others: Those that stay whole.
    """

    chosen: Tuple[Candidate, ...] = ()
    others: Tuple[Candidate, ...] = ()

    @property
    def tables(self) -> Tuple[ShardedTable, ...]:
        """The tables to shard."""
        return tuple(one.sharded for one in self.chosen if one.sharded is not None)


def plan_tables(view: GraphView, options: ShardTablesOptions, ranks: Ranks) -> Plan:
    """Chooses the tables of a graph that trains.

    Args:
      view: The graph, after `fold_conditionals`.
      options: What was asked for.
      ranks: Among which they are sharded.
    """
    return _chosen([_candidate(view, one, ranks) for one in _looked_up(view)], options, ranks)


def plan_without(
    plan: Plan, table: str, refusal: Refusal, options: ShardTablesOptions, ranks: Ranks
) -> Plan:
    """Chooses again, once it is known that a table cannot be sharded.

    Args:
      plan: What was chosen before.
      table: Name of the table.
      refusal: Why it can not.
      options: As for `plan_tables`.
      ranks: As for `plan_tables`.
    """
    candidates = [
        one._replace(sharded=None, refusal=refusal) if one.table.name == table else one
        for one in (*plan.chosen, *plan.others)
    ]
    return _chosen(candidates, options, ranks)


def _chosen(candidates: List[Candidate], options: ShardTablesOptions, ranks: Ranks) -> Plan:
    wanted = _wanted(candidates, options, ranks)
    return Plan(
        tuple(one for one in candidates if one.table.name in wanted),
        tuple(one for one in candidates if one.table.name not in wanted),
    )


class _LookedUp(NamedTuple):
    table: Table
    lookups: Tuple[Lookup, ...]
    updates: SparseUpdates


def _looked_up(view: GraphView) -> List[_LookedUp]:
    """The tables of all lookups, in their order."""
    lookups: Dict[str, List[Lookup]] = {}
    tables: Dict[str, Table] = {}
    for lookup in find_lookups(view).lookups:
        for table in dict.fromkeys(lookup.tables):
            tables.setdefault(table.name, table)
            lookups.setdefault(table.name, []).append(lookup)
    updates = sparse_updates(view, tables)
    return [_LookedUp(tables[name], tuple(lookups[name]), updates) for name in tables]


def _candidate(view: GraphView, found: _LookedUp, ranks: Ranks) -> Candidate:
    name = found.table.name
    plain = Candidate(found.table, found.lookups)
    try:
        _require_rows(found.table)
        update = _update(found.updates, name)
    except Refusal as refusal:
        return plain._replace(refusal=refusal)
    reads = [find_read(view, slot) for slot in update.slots]
    slots = tuple(read.variable for read in reads if read is not None)
    plain = plain._replace(slots=slots)
    try:
        exchangeable = require_exchangeable(view, found.table, found.lookups, update)
        known = exchangeable.readers.union(update.nodes)
        for variable in (name, *slots):
            _require_nothing_whole(view, name, variable, known)
    except Refusal as refusal:
        return plain._replace(refusal=refusal)
    assert found.table.shape is not None and found.table.shape[0] is not None
    rows = ModRows(found.table.shape[0], ranks.size)
    sharded = ShardedTable(found.table, found.lookups, update, slots, rows, ranks.rank)
    return plain._replace(sharded=sharded, known=known)


def _require_rows(table: Table) -> None:
    shape = table.shape
    if shape is None or len(shape) != 2 or None in shape:
        raise Refusal(
            "table_not_supported",
            at=table.name,
            need="a table of known shape [rows, width]",
            saw="shape {}".format("unknown" if shape is None else list(shape)),
        )


def _update(updates: SparseUpdates, name: str) -> SparseUpdate:
    if name in updates.refusals:
        raise updates.refusals[name]
    if name not in updates.found:
        raise Refusal(
            "table_not_trained",
            at=name,
            need="an optimizer that updates the table with IndexedSlices",
            saw="no update of it",
        )
    return updates.found[name]


def _require_nothing_whole(
    view: GraphView, table: str, variable: str, known: AbstractSet[str]
) -> None:
    others = variable_uses(view, variable, known).others
    if others:
        reader = others[0].consumer
        what = "the table" if variable == table else "the slot {}".format(variable)
        raise Refusal(
            "table_read_whole",
            at=reader,
            need="nothing but lookups, the update and checkpoints that read {}".format(variable),
            saw="{}, which reads {} whole".format(view.op(reader), what),
        )


def _wanted(
    candidates: Sequence[Candidate], options: ShardTablesOptions, ranks: Ranks
) -> FrozenSet[str]:
    """Names of the tables to shard."""
    able = [one for one in candidates if one.sharded is not None]
    named = {one.table.name for one in able if one.table.name in options.tables}
    if options.only_marked:
        return frozenset(named)
    large = [one for one in able if one.bytes >= max(1, options.min_table_bytes)]
    if not options.memory_budget_bytes:
        return frozenset(named.union(one.table.name for one in large))
    held = sum(_held(one, one.table.name in named, ranks) for one in candidates)
    for one in sorted(large, key=lambda one: (-one.bytes, one.table.name)):
        if held <= options.memory_budget_bytes:
            break
        if one.table.name not in named:
            named.add(one.table.name)
            held += _held(one, True, ranks) - _held(one, False, ranks)
    return frozenset(named)


def _held(candidate: Candidate, is_divided: bool, ranks: Ranks) -> int:
    """Bytes on the rank that has most; the same number on all ranks, which must choose alike."""
    if not is_divided or not candidate.bytes:
        return candidate.bytes
    shape = candidate.table.shape
    assert shape is not None and shape[0]
    return candidate.bytes // shape[0] * ModRows(shape[0], ranks.size).num_local_rows(0)


def _bytes(table: Table) -> int:
    shape = table.shape or (None,)
    count = tf.as_dtype(table.dtype).size or 0
    for size in shape:
        count *= size or 0
    return int(count)
