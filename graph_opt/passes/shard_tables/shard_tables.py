"""Shards large tables of an unmodified Horovod script across its ranks.

    before   every rank: table [V, D], lookups, allgather of slices, update
    after    rank r: rows r, r + N, ... of table and slots; exchange of rows, update of these

Ranks exchange rows in the place of slices, and updates, which stay the script's, take the sums of
all ranks' gradients of the rows that this rank has. Other passes then find exchanges, as those of
`graph_opt.sok`.

The variable and its slots keep their nodes and get another shape. In a live graph static shapes
stay those of the whole table, since TensorFlow infers them once; sessions infer their own. Savers,
broadcasts that are added later and fetches know from `keyed_rows`, which the user's variables get,
that each rank has a part (`session/features/sharded_tables.py`).
"""

from __future__ import annotations

import dataclasses
from typing import List, Optional, Tuple

from graph_opt.config.options import Ranks, SessionOptions, ShardTablesOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.passes.conditional_collectives import fold_conditionals
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.shard_tables.exchange_groups import TableRefusal
from graph_opt.passes.shard_tables.exchange_lookups import exchange_lookups
from graph_opt.passes.shard_tables.messages import Messages
from graph_opt.passes.shard_tables.plan import Candidate, Plan, plan_tables, plan_without
from graph_opt.passes.shard_tables.shard_variables import shard_variables
from graph_opt.reporting.outcomes import TableOutcome
from graph_opt.reporting.tables import counted

_NO_RANKS = (
    "no table is sharded: the process is not one of several ranks (call horovod.tensorflow.init() "
    "before the session's first run, and start ranks with horovodrun or graph-opt run -np)"
)
_ONE_RANK = "no table is sharded: there is one rank"
_ELASTIC = (
    "no table is sharded: Horovod is elastic, and rows of ranks that may come and go would be lost"
)
_NOT_FOUND = "shard_tables_options.tables has '{}', but no lookup reads a variable of this name"
_NOT_ABLE = "table '{}' was to be sharded and stays whole on every rank ({})"
_OVER_BUDGET = (
    "the tables of a rank take {} bytes, more than shard_tables_options.memory_budget_bytes: what "
    "is left cannot be sharded"
)
_MADE_WHOLE = (
    "every rank makes all initial values of '{}' before it takes its rows, which exceeds "
    "shard_tables_options.memory_budget_bytes: only those of uniform and normal distributions are "
    "drawn row by row"
)
_REDRAWN = (
    "{} drawn row by row, since a whole one exceeds memory_budget_bytes: the first values are of "
    "the same distributions as TensorFlow's, but other numbers"
)


def shard_tables(state: PassState, options: SessionOptions) -> PassState:
    """Shards the tables that the options choose, if the process is one of several ranks."""
    wanted, ranks = options.shard_tables, options.ranks
    if wanted is None:
        return state
    folded = fold_conditionals(state)
    plan = plan_tables(folded.view, wanted, ranks or Ranks(0, 2))
    reason = _why_not(ranks)
    if ranks is None or reason:
        return _reported(state, plan, wanted, None, (reason,))
    plan, exchanged = _exchanged(folded, plan, wanted, ranks, options)
    if exchanged is None:
        return _reported(state, plan, wanted, ranks)
    known = [(one.sharded, one.known) for one in plan.chosen if one.sharded is not None]
    sharded = shard_variables(exchanged, known, wanted.memory_budget_bytes)
    name_map = sharded.state.name_map.with_part(sharded.variables)
    done = dataclasses.replace(sharded.state, name_map=name_map)
    warnings = tuple(map(_MADE_WHOLE.format, sharded.made_whole))
    done = done.reporting(warnings=(*done.report.warnings, *warnings))
    if sharded.redrawn:
        done = done.reporting(_REDRAWN.format(counted(len(sharded.redrawn), "variable")))
    return _reported(done, plan, wanted, ranks)


def _why_not(ranks: Optional[Ranks]) -> str:
    """Why nothing is sharded across these; empty if nothing forbids it."""
    if ranks is None:
        return _NO_RANKS
    if ranks.elastic:
        return _ELASTIC
    return _ONE_RANK if ranks.size == 1 else ""


def _exchanged(
    state: PassState,
    plan: Plan,
    wanted: ShardTablesOptions,
    ranks: Ranks,
    options: SessionOptions,
) -> Tuple[Plan, Optional[PassState]]:
    """The graph with exchanges, and the plan without the tables for which there can be none."""
    messages = Messages(ranks.rank, ranks.size, ranks.group)
    while plan.tables:
        try:
            return plan, exchange_lookups(state, plan.tables, messages, options)
        except TableRefusal as refusal:
            plan = plan_without(plan, refusal.table, refusal, wanted, ranks)
    return plan, None


def _reported(
    state: PassState,
    plan: Plan,
    options: ShardTablesOptions,
    ranks: Optional[Ranks],
    reasons: Tuple[str, ...] = (),
) -> PassState:
    outcomes = [_outcome(one, ranks) for one in plan.chosen]
    outcomes += [_outcome(one, None) for one in plan.others if _is_news(one, options)]
    return state.reporting(
        tables=tuple(outcomes),
        left_alone=(*state.report.left_alone, *reasons),
        warnings=(*state.report.warnings, *_warnings(plan, options, outcomes)),
    )


def _outcome(candidate: Candidate, ranks: Optional[Ranks]) -> TableOutcome:
    """What became of a table; it stays whole without ranks."""
    table, sharded = candidate.table, candidate.sharded
    here, rule = candidate.bytes, ""
    if ranks is not None and sharded is not None:
        here = candidate.bytes // max(1, sharded.rows.num_rows) * sharded.local_rows
        rule = "row i on rank i % {}".format(ranks.size)
    refusal = candidate.refusal
    return TableOutcome(
        name=table.name,
        shape=table.shape,
        slots=candidate.slots,
        lookups=len(candidate.lookups),
        bytes=candidate.bytes,
        bytes_here=here,
        rule=rule,
        refusal=None if refusal is None else refusal.to_dict(),
    )


def _is_news(candidate: Candidate, options: ShardTablesOptions) -> bool:
    """Whether somebody may have expected the table to be sharded."""
    if candidate.table.name in options.tables:
        return True
    if options.only_marked or candidate.refusal is None:
        return False
    return not candidate.bytes or candidate.bytes >= options.min_table_bytes


def _warnings(plan: Plan, options: ShardTablesOptions, outcomes: List[TableOutcome]) -> List[str]:
    known = {one.table.name: one for one in (*plan.chosen, *plan.others)}
    warnings = [_NOT_FOUND.format(name) for name in options.tables if name not in known]
    for name in options.tables:
        refusal: Optional[Refusal] = known[name].refusal if name in known else None
        if refusal is not None:
            warnings.append(_NOT_ABLE.format(name, refusal))
    sharded = [one for one in outcomes if one.rule]
    held = sum(one.bytes_here for one in sharded) + sum(one.bytes for one in plan.others)
    if 0 < options.memory_budget_bytes < held and sharded:
        warnings.append(_OVER_BUDGET.format(held))
    return warnings
