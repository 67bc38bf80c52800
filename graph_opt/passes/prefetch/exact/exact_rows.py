"""Decides which lookups run ahead with the rows that a step would have read, and has main do so.

Where a table is kept decides how that is done; `passes/table_kinds.py` has the kinds.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import AbstractSet, Container, Dict, Iterable, List, Mapping, Optional, Sequence

from graph_opt.config.options import AsyncEmbeddingOptions, SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact.exact_tables import (
    ROW_LOG,
    ExactTables,
    log_entry,
    tell_followers,
)
from graph_opt.passes.prefetch.exact.kind import Asked, ExactKind
from graph_opt.passes.prefetch.missed_updates import most_missed
from graph_opt.passes.prefetch.regions import staying_lookups
from graph_opt.passes.table_kinds import KINDS, kind_of
from graph_opt.passes.unused_lookups import unused_lookups
from graph_opt.reporting.tables import counted
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import COLUMNS, Lookup, tables_apart
from graph_opt.rules.match.table import find_read
from graph_opt.rules.op_names import LOCAL_UPDATES

_SCOPE = "exact_rows"
_NO_TABLE = "staleness_limit: '{}' matches no table that a lookup reads; write part of its name"


def exact_rows(state: PassState, options: SessionOptions) -> PassState:
    """Refreshes the results of fused lookups in main, and decides which may run ahead."""
    wanted = options.async_embedding
    if wanted is None or not (wanted.exact or wanted.staleness.limits):
        return state
    lookups = find_lookups(state.view).lookups
    staying = staying_lookups(state.view, lookups, wanted)
    fetched = frozenset(TensorRef.parse(name) for name in options.fetched)
    unused = unused_lookups(state.view, lookups, fetched)
    moving = [each for each in lookups if each.output not in staying]
    moving = [each for each in moving if str(each.output) not in unused]
    bounded = _bounded(lookups, options)
    exact = {each.output.node for each in moving if not bounded.keys().isdisjoint(_names(each))}
    moving = [each for each in moving if each.output.node in exact]
    idle = [
        _NO_TABLE.format(limit.table)
        for limit in wanted.staleness.limits
        if not any(limit.matches(_names(each)) for each in lookups)
    ]
    state = state.reporting(warnings=(*state.report.warnings, *idle))
    return _with_exact_rows(state, Asked(wanted, bounded, free_scope(state.view, _SCOPE)), moving)


def _bounded(lookups: Iterable[Lookup], options: SessionOptions) -> Dict[str, int]:
    """How many updates rows may miss, by variable; without tables that stay within their limit."""
    wanted, pipelined = options.async_embedding, options.pipeline_dense
    assert wanted is not None
    sizes = (wanted.capacity, wanted.threads_num)
    delayed = 0 if pipelined is None else pipelined.staleness
    most = sys.maxsize if min(sizes) < 0 else sum(sizes) + delayed
    found: Dict[str, int] = {}
    for lookup in lookups:
        for shards in tables_apart(lookup.tables):
            names = [shard.name for shard in shards]
            limit = 0 if wanted.exact else wanted.staleness.limit_of(names)
            if limit is not None and limit < most:
                found.update(dict.fromkeys(names, limit))
    return found


def _names(lookup: Lookup) -> List[str]:
    return [table.name for table in lookup.tables]


def refuse_inexact(
    lookup: Lookup, exact: Optional[ExactTables], options: AsyncEmbeddingOptions
) -> Optional[Refusal]:
    """Why a lookup must not run ahead although it could; None if it may, or nothing is exact."""
    node = lookup.output.node
    if exact is None or lookup.api in COLUMNS or node in exact.lookups:
        return None
    bounded = options.exact or not exact.bounded.keys().isdisjoint(_names(lookup))
    if node not in exact.refused and not bounded:
        return None
    return exact.refused.get(node) or Refusal(
        "exact_not_fused",
        at=node,
        need="a lookup that do_group_embedding fuses, to read rows again (exact)",
        saw=lookup.api,
    )


def _with_exact_rows(state: PassState, asked: Asked, lookups: Sequence[Lookup]) -> PassState:
    """The state after the pass, in which these lookups may run ahead, or are refused."""
    kinds = {kind.name: kind.exact(state.view, asked) for kind in KINDS}
    refused = _take(state.view, kinds, lookups)
    exact = ExactTables(bounded=asked.bounded, refused=refused)
    replaced: Dict[str, str] = {}
    changes = []
    for kind in (each for each in kinds.values() if each.lookups):
        written = kind.write(state)
        state = written.state
        replaced.update(written.replaced)
        exact = exact.with_kind(kind.lookups, written)
        changes += [(text, _count(lookups, kind.lookups)) for text in written.changes]
    logged = {name for name, each in exact.followers.items() if each == ROW_LOG}
    state = state.rewritten(_log_updates(state.view, logged, asked.options))
    step, side_targets = tell_followers(state.view, exact.followers)
    state = state.rewritten(step)
    exact = dataclasses.replace(exact, side_targets={**exact.side_targets, **side_targets})
    substitutes = _substitutes(state.name_map.substitutes, replaced)
    name_map = dataclasses.replace(state.name_map, substitutes=substitutes)
    state = dataclasses.replace(state, name_map=name_map.with_part(exact))
    lines = [text.format(counted(count, "lookup")) for text, count in changes]
    return state.reporting(*lines) if lines else state


def _take(
    view: GraphView, kinds: Mapping[str, ExactKind], lookups: Sequence[Lookup]
) -> Dict[str, Refusal]:
    """Gives each kind of table its lookups; returns the reasons of those that must stay in main."""
    refused: Dict[str, Refusal] = {}
    first = {lookup.output.node: lookup for lookup in reversed(lookups)}
    for name in dict.fromkeys(lookup.output.node for lookup in lookups):
        kind = kind_of(view.op(name))
        if kind is None:
            continue
        try:
            kinds[kind.name].take(first[name])
        except Refusal as refusal:
            refused[name] = refusal
    return refused


def _count(lookups: Iterable[Lookup], nodes: Container[str]) -> int:
    return sum(len(one.ids) for one in lookups if one.output.node in nodes)


def _log_updates(
    view: GraphView, variables: AbstractSet[str], options: AsyncEmbeddingOptions
) -> Rewrite:
    """Has fused updates of these tables log the rows that they write."""
    edits = Edits(view)
    for name in view.of_op(*sorted(LOCAL_UPDATES)):
        count = view.nodes[name].attr["num_shards"].i
        reads = [find_read(view, tensor) for tensor in view.inputs(name)[:count]]
        names = [read.variable if read is not None else "" for read in reads]
        if variables.isdisjoint(names):
            continue
        logs = [log_entry(view, each) if each in variables else "" for each in names]
        edits.set(name, "row_logs", logs)
        edits.set(name, "row_log_length", most_missed(options) + 1)
    return edits.rewrite()


def _substitutes(before: Mapping[str, str], replaced: Mapping[str, str]) -> Dict[str, str]:
    """What stands for the results of lookups."""
    after = {name: replaced.get(tensor, tensor) for name, tensor in before.items()}
    return {**replaced, **after}
