"""Lookups that run ahead, with the rows that a step would have read itself.

    prefetch   ids -> RowLogPosition -^> lookup ─> pooled rows, position
    main       pooled rows, position, ids ─> Refresh(tables) -> layers
               update -> log: the rows that it wrote

The lookup remains what it was and moves like any other. Of what it returns, main pools those bags
again of which an update has since written a row. Whether it has is looked up in a log that updates
keep for as many steps as a batch may wait. A position is taken before rows are read, and an update
logs after it has written: one that the read overlaps counts as later.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import AbstractSet, Any, Container, Dict, Iterable, List, Mapping, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import attributes_of
from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.config.options import AsyncEmbeddingOptions, SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import inputs_by_name
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.node_writer import NodeWriter, free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.prefetch.exact_tables import (
    ExactTables,
    log_entry,
    log_writers,
    refuse_place,
    refuse_writer,
    table_writes,
    tell_writers,
)
from graph_opt.passes.prefetch.exchanged_rows import (
    ExchangedLookup,
    exchanged_lookup,
    refresh_exchanged,
)
from graph_opt.passes.prefetch.missed_updates import most_missed
from graph_opt.passes.prefetch.refresh_counts import add_refresh_counts
from graph_opt.passes.prefetch.regions import sources_behind, staying_lookups
from graph_opt.passes.prefetch.served_batches import ask_behind_updates
from graph_opt.passes.prefetch.served_rows import (
    ServedLookup,
    keep_answers,
    may_pool,
    read_again,
    refresh,
    served_lookup,
)
from graph_opt.passes.tasks import runs_on_cpu
from graph_opt.passes.unused_lookups import unused_lookups
from graph_opt.reporting.tables import counted
from graph_opt.rules import find_lookups
from graph_opt.rules.lookup import COLUMNS, Lookup, tables_apart
from graph_opt.rules.match.table import find_read, is_dynamic
from graph_opt.rules.op_names import (
    EXCHANGE_COMBINE,
    GROUP_COMBINE,
    GROUP_LOOKUPS,
    OWN_UPDATES,
)

_SCOPE = "exact_rows"
_CHANGE = "{} with exact rows: what updates wrote since is read again"
_NO_TABLE = "staleness_limit: '{}' matches no table that a lookup reads; write part of its name"
_SERVED = (
    "{} with exact rows of servers: no update of this worker is missed; other workers' updates are "
    "seen as a synchronous worker would see them"
)
_POOLED = (
    "{} with exact rows of servers, which pool bags where that is clearly less to send: such "
    "batches are asked for behind the update of the step before, not ahead of it"
)
_EXCHANGED = "{} with exact rows of other ranks, which send what their updates wrote since"


def exact_rows(state: PassState, options: SessionOptions) -> PassState:
    """Brings the results of fused lookups to date in main, and decides which may run ahead."""
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
    return _ExactRows(state, wanted, moving, bounded).applied()


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


class _ExactRows:
    """One run of the pass on one graph."""

    def __init__(
        self,
        state: PassState,
        options: AsyncEmbeddingOptions,
        lookups: List[Lookup],
        bounded: Mapping[str, int],
    ) -> None:
        self._state = state
        self._view: GraphView = state.view
        self._options = options
        self._lookups = lookups
        self._bounded = bounded
        self._scope = free_scope(state.view, _SCOPE)
        self._nodes: List[Any] = []
        self._edits = Edits(state.view)
        self._replaced: Dict[str, str] = {}

    def applied(self) -> PassState:
        """The state after the pass."""
        found, refused = self._choose()
        served = self._choose_served(refused)
        exchanged = self._choose_exchanged(refused)
        for name in found:
            self._refresh(name)
        tables = [*found.values(), *(each.variables for each in exchanged)]
        of_lookups = frozenset(table for of_lookup in tables for table in of_lookup)
        variables = of_lookups & self._bounded.keys()
        self._log_updates(variables)
        after = self._state.rewritten(self._edits.rewrite(self._nodes))
        after = after.rewritten(log_writers(self._view, variables))
        again = []
        # Where only some tables are bounded, rows of the others run ahead and are sampled.
        pools = self._options.exact and may_pool(self._view, served)
        for lookup in served:
            step, reads = read_again(after.view, lookup, self._scope, self._bounded)
            after = after.rewritten(step)
            again.append(reads)
            step, replaced = refresh(after.view, lookup, self._scope, self._bounded, pools)
            self._replaced.update(replaced)
            after = after.rewritten(step)
        for exchange in exchanged:
            step, replaced = refresh_exchanged(after.view, exchange, self._scope, self._bounded)
            self._replaced.update(replaced)
            after = after.rewritten(step)
        workers = {
            shard: self._view.device(each.prepare)
            for each in served
            for shard in each.shards
            if shard in self._bounded
        }
        step, keeps = keep_answers(after.view, workers.keys(), self._scope)
        after = after.rewritten(step)
        if pools:
            step = ask_behind_updates(after.view, served, keeps, self._scope, self._bounded)
            after = after.rewritten(step)
        step, told = tell_writers(after.view, workers)
        after = after.rewritten(step)
        ranks = [each.exchange.combine for each in exchanged]
        exact = ExactTables(
            variables,
            self._bounded,
            frozenset([*found, *(each.combine for each in served), *ranks]),
            refused,
            workers,
            {**keeps, **told},
            tuple(again),
        )
        translation = self._state.translation
        after = dataclasses.replace(
            after,
            translation=dataclasses.replace(
                translation, exact=exact, substitutes=self._substitutes(translation.substitutes)
            ),
        )
        servers = [each.combine for each in served]
        pooled = servers if pools else []
        lines = ((_CHANGE, found), (_SERVED, servers), (_POOLED, pooled), (_EXCHANGED, ranks))
        changes = [text.format(counted(self._count(of), "lookup")) for text, of in lines if of]
        return after.reporting(*changes) if changes else after

    def _count(self, nodes: Container[str]) -> int:
        return sum(len(one.ids) for one in self._lookups if one.output.node in nodes)

    def _choose_served(self, refused: Dict[str, Refusal]) -> List[ServedLookup]:
        """The lookups of tables on servers; adds reasons for others to `refused`."""
        found = []
        for name in dict.fromkeys(lookup.output.node for lookup in self._lookups):
            if self._view.op(name) == GROUP_COMBINE:
                try:
                    found.append(served_lookup(self._view, name, self._bounded))
                except Refusal as refusal:
                    refused[name] = refusal
        return found

    def _choose_exchanged(self, refused: Dict[str, Refusal]) -> List[ExchangedLookup]:
        """The lookups of tables divided among ranks; adds reasons for others to `refused`."""
        found = []
        for name, lookup in self._first().items():
            if self._view.op(name) == EXCHANGE_COMBINE:
                try:
                    self._require_own(lookup.tables[0].name)
                    exchanged = exchanged_lookup(self._view, lookup, self._bounded)
                    self._require_one_input(exchanged)
                    found.append(exchanged)
                except Refusal as refusal:
                    refused[name] = refusal
        return found

    def _require_one_input(self, exchanged: ExchangedLookup) -> None:
        """Where another input ends first on one rank, the others wait for its changed rows."""
        writes = [table_writes(self._view, each) for each in exchanged.variables]
        updates = [name for one in writes for name in one.updates]
        nodes = [exchanged.exchange.combine, *updates]
        sources = sources_behind(self._view, nodes, self._options)
        if len(sources) > 1:
            raise Refusal(
                "exact_several_inputs",
                at=exchanged.exchange.combine,
                need="one input for all of a step, as ranks send each other changed rows (exact)",
                saw=", ".join(sources),
            )

    def _first(self) -> Dict[str, Lookup]:
        """The first lookup of each node."""
        return {lookup.output.node: lookup for lookup in reversed(self._lookups)}

    def _choose(self) -> Tuple[Dict[str, Tuple[str, ...]], Dict[str, Refusal]]:
        """The tables of each op that looks up exact rows, and the reasons for the others."""
        found: Dict[str, Tuple[str, ...]] = {}
        refused: Dict[str, Refusal] = {}
        for name, lookup in self._first().items():
            try:
                if self._view.op(name) in GROUP_LOOKUPS:
                    found[name] = self._tables(name, lookup.tables[0].name)
            except Refusal as refusal:
                refused[name] = refusal
        return found, refused

    def _tables(self, name: str, first: str) -> Tuple[str, ...]:
        """The bounded variables that an op looks up, which looks up `first`, too.

        Raises:
          Refusal: exact_elsewhere, exact_table_written.
        """
        view = self._view
        device = view.device(name)
        self._require_own(first)
        if tf.DeviceSpec.from_string(device).job not in (None, "localhost"):
            raise refuse_place(first, device)
        if not runs_on_cpu(device):
            raise refuse_place(first, "tables on a GPU")
        count = view.nodes[name].attr["num_shards"].i
        reads = [find_read(view, tensor) for tensor in view.inputs(name)[:count]]
        names = [read.variable for read in reads if read is not None]
        tables = tuple(name for name in names if name in self._bounded)
        for table in tables:
            if is_dynamic(view, table):
                raise refuse_place(table, "a dynamic table")
            for use in table_writes(view, table).others:
                raise refuse_writer(use.consumer, "op " + view.op(use.consumer))
        for source in view.controls(name):
            if view.op(source) in BRING_ROWS:
                raise refuse_writer(first, "an update that moves every row in each step")
        return tables

    def _require_own(self, table: str) -> None:
        if self._options.is_served:
            raise refuse_place(table, "tables of a server")

    def _refresh(self, name: str) -> None:
        """Adds what brings the results of one op to date, for all that read them."""
        view = self._view
        node, device = view.nodes[name], view.device(name)
        inputs = inputs_by_name(view, name)
        shards = [find_read(view, tensor) for tensor in inputs["tables"]]
        names = [read.variable if read is not None else "" for read in shards]
        bounded = self._bounded
        logs = [log_entry(view, each) if each in bounded else "" for each in names]
        outputs = [TensorRef(name, i) for i in range(len(view.dtypes(name) or ()))]
        # Rows that may miss some updates are sampled as they were looked up.
        choice = name if self._options.exact and bounded.keys() >= set(names) else ""
        writer = NodeWriter(self._view, "{}/{}".format(self._scope, name), device)
        where = {"_class": node.attr["_class"]} if "_class" in node.attr else {}
        position = writer.call(
            "position",
            "RowLogPosition",
            batch=list(view.inputs(name)[len(shards) :]),
            row_logs=logs,
            table_shards=node.attr["table_shards"],
            ahead_choice=choice,
            **where,
        )
        op = node.op.replace("Lookup", "Refresh")
        refresh = writer.call(
            "pooled",
            op,
            read=outputs,
            log_position=position.result,
            row_logs=logs,
            may_miss=[bounded.get(each, 0) for each in names],
            **inputs,
            **add_refresh_counts(writer, node, names, bounded, **where),
            **{**attributes_of(op, node), "ahead_choice": choice},
            **where,
        )
        self._nodes += writer.nodes
        self._edits.set(name, "ahead_choice", choice)
        self._edits.wait(name, position.name)
        self._edits.replace_waits(name, refresh.name)
        for output, fresh in zip(outputs, refresh.outputs("pooled")):
            self._replaced[str(output)] = str(fresh.ref)
            self._edits.replace(output, fresh)

    def _log_updates(self, variables: AbstractSet[str]) -> None:
        """Has fused updates of these tables log the rows that they write."""
        view, length = self._view, most_missed(self._options) + 1
        for name in view.of_op(*sorted(OWN_UPDATES)):
            count = view.nodes[name].attr["num_shards"].i
            reads = [find_read(view, tensor) for tensor in view.inputs(name)[:count]]
            names = [read.variable if read is not None else "" for read in reads]
            if variables.isdisjoint(names):
                continue
            logs = [log_entry(view, each) if each in variables else "" for each in names]
            self._edits.set(name, "row_logs", logs)
            self._edits.set(name, "row_log_length", length)

    def _substitutes(self, before: Any) -> Dict[str, str]:
        """What stands for the results of lookups."""
        after = {name: self._replaced.get(tensor, tensor) for name, tensor in before.items()}
        return {**self._replaced, **after}
