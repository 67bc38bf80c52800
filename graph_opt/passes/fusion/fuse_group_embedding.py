"""Replaces many lookups by one op, as well as their gradients and updates.

    before   ids_i -> 2 to 60 ops -> pooled_i     gradient of pooled_i -> 10 ops -> apply_i
    after    ids_0 .. ids_n -> GroupEmbeddingLookup -> pooled_0 .. pooled_n
             gradients of pooled_0 .. pooled_n -> GroupEmbeddingApply

Each part that cannot be replaced without changing values is left unchanged: if a lookup's update is
not recognised, one op (`GroupEmbeddingGrad`) still computes its gradient; if its gradient is not
recognised, it keeps its own. Replaced nodes stay in the graph under their names, but do not run.
"""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, List, Optional, Sequence, Set, Tuple

from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.verify import CycleError
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.applied_once import marked, refuse_again
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.fusion.averages import write_averages
from graph_opt.passes.fusion.candidates import CandidateSearch, Member, find_candidates
from graph_opt.passes.fusion.catch_up import CatchUp
from graph_opt.passes.fusion.concatenated_lookups import joined_gradient
from graph_opt.passes.fusion.cycles import (
    GRADIENT,
    LOOKUP,
    UPDATE,
    MergedOp,
    MergedPart,
    parts_on_cycles,
)
from graph_opt.passes.fusion.deferred import DeferredVariables
from graph_opt.passes.fusion.dense_readers import dense_readers
from graph_opt.passes.fusion.group_nodes import FUSED, Columns
from graph_opt.passes.fusion.groups import LookupGroup
from graph_opt.passes.fusion.outcome import fused_lookups
from graph_opt.passes.fusion.plan import FusionPlan, FusionPlanner, LeftOut
from graph_opt.passes.fusion.row_gradients import write_rows_of_gradient
from graph_opt.passes.fusion.sent_gradients import SentGradient
from graph_opt.passes.fusion.updated_tables import UpdateGroup
from graph_opt.passes.fusion.users_nodes import UsersNodesBuilder
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.protect_gathers import exposed_reads
from graph_opt.passes.table_kinds import FUSED_LOOKUPS
from graph_opt.passes.unused_gradients import unused_gradients
from graph_opt.reporting.outcomes import DenseReader, FusedLookup
from graph_opt.reporting.tables import counted
from graph_opt.rules.dynamic_lookups import keys_counted_twice
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.match.forward import ForwardPart

_SCOPE = "group_embedding"
_FREED = "{} kept from becoming whole-table reads"
_FED_APART = (
    "lookups of different placeholders are not fused with each other, as a run may feed only some "
    "of them (graph-opt export fuses those that a request feeds)"
)
_SENT = "{} summed by row before other ranks get them"


def fuse_group_embedding(state: PassState, options: SessionOptions) -> PassState:
    """Fuses the graph's lookups.

    Raises:
      FailedPreconditionError: The graph's lookups were fused before.
    """
    wanted = options.group_embedding
    if wanted is None:
        return state
    refuse_again(
        marked(state.view, FUSED, *FUSED_LOOKUPS),
        "the graph's lookups were fused before (node '{}'): group embedding is",
    )
    fetched = frozenset(TensorRef.parse(name) for name in options.fetched)
    search = find_candidates(state.view, wanted, fetched)
    refusals = tuple(refusal.to_dict() for refusal in search.refusals)
    state = state.reporting(refusals=refusals)
    planner = FusionPlanner(state.view, search, options)
    left_out = LeftOut()
    while True:
        fusion = _Fusion(state.view, search, planner.plan(left_out))
        rewrite = fusion.rewrite()
        try:
            fused = state.rewritten(rewrite)
        except CycleError as error:
            more = parts_on_cycles(state.view, fusion.merged, fusion.replaced, error.cycles)
            if more == LeftOut():
                raise
            left_out = left_out.and_also(more)
            continue
        # Gradients that tf.gradients forces, but that nothing reads, must not keep a lookup alive,
        # and one that counts keys not even those that only a fetch would run.
        unused = unused_gradients(fused.view).nodes
        idle = ForwardPart(fused.view).idle_gradients(fusion.counting_gathers)
        dead = dead_nodes(fused.view, fusion.replaced.union(unused, idle))
        dead.difference_update(_kept_for_fetches(fused.view, fetched, fusion.substitutes))
        counted_twice = fusion.keys_counted_twice(dead)
        if counted_twice:
            left_out = left_out.and_also(LeftOut(lookups=counted_twice))
            continue
        readers = fusion.dense_readers(fused.view)
        freed = [read.gather for read in exposed_reads(state.view) if read.reduction in dead]
        name_map = dataclasses.replace(
            fused.name_map.with_dead(dead),
            substitutes={**fused.name_map.substitutes, **fusion.substitutes},
        )
        for part in (fusion.users_nodes.built(), fusion.deferred):
            if part is not None:
                name_map = name_map.with_part(part)
        fused = dataclasses.replace(fused.without(dead), name_map=name_map)
        changes = [_FREED.format(counted(len(freed), "lookup"))] if freed else []
        if fusion.summed_before_sending:
            changes.append(_SENT.format(counted(fusion.summed_before_sending, "gradient")))
        left = (_FED_APART,) if fusion.is_fed_apart else ()
        return fused.reporting(
            *changes,
            left_alone=(*fused.report.left_alone, *left),
            fused_lookups=fusion.outcomes(),
            dense_readers=readers,
            whole_table_reads_removed=tuple(freed),
        )


class _Fusion:
    """One run of the pass on one graph."""

    def __init__(self, view: GraphView, search: CandidateSearch, plan: FusionPlan) -> None:
        self._view = view
        self._search = search
        self._plan = plan
        self._outcome = plan.outcome
        self._nodes = plan.group_nodes(view, _SCOPE)
        self._edits = Edits(view)
        self._outputs: Dict[str, str] = {}
        self.catch_up = CatchUp(view, self._nodes, self._edits, {})
        self.deferred: Optional[DeferredVariables] = None
        self.users_nodes = UsersNodesBuilder()
        self.replaced: Set[str] = set()
        self.merged: List[MergedOp] = []
        self.summed_before_sending = 0
        self.is_fed_apart = plan.is_fed_apart

    def rewrite(self) -> Rewrite:
        """The rewrite; empty if nothing can be fused."""
        for group in self._plan.lookups:
            self._fuse_forward(group)
        for updates in self._plan.updates:
            self._fuse_update(updates)
        self._defer_averages()
        for members in self._plan.gradients:
            self._fuse_gradients(members)
        for sent in self._plan.sent:
            self._sum_before_sending(sent)
        self._add_readers()
        self._edits.apply_to_new(self._nodes.nodes)
        return self._edits.rewrite(self._nodes.nodes)

    def _add_readers(self) -> None:
        deferred = self._plan.deferred
        self.catch_up = CatchUp(self._view, self._nodes, self._edits, deferred, self.replaced)
        self.catch_up.add_readers()
        if deferred:
            self.deferred = DeferredVariables(
                tuple(deferred.values()), self.catch_up.write_all(), self.catch_up.current_values
            )

    def _fuse_forward(self, group: LookupGroup) -> None:
        concatenation = group.concatenation
        columns = None
        if concatenation is not None:
            columns = Columns(concatenation.columns, concatenation.width)
        before = len(self._nodes.nodes)
        lookup = group.kind.write_lookup(self._nodes, group.members, columns)
        group.kind.write_catch_up(self._nodes, group.members, lookup)
        written = [made.name for made in self._nodes.nodes[before:]]
        self.users_nodes.add_lookups(written, [m.candidate.lookup for m in group.members])
        node, pooled = lookup.name, lookup.outputs("pooled")
        output = group.members[0].candidate.lookup.output
        writer = self._nodes.writer("result", self._view.device(output.node))
        if concatenation is not None:
            self._edits.replace(*self._nodes.joined(writer, pooled[0], concatenation))
            self.replaced.update((*concatenation.nodes, concatenation.node))
        for number, member in enumerate(group.members):
            if columns is None:
                result = self._nodes.restored(writer, member, pooled[number])
            else:
                result = self._nodes.column(writer, member, pooled[0], columns.starts[number])
            self._replace_result(member, node, result)
        self.merged.append(
            MergedOp(
                LOOKUP,
                tuple(
                    MergedPart((m.candidate.lookup,), {m.candidate.lookup.output.node: node})
                    for m in group.members
                ),
            )
        )

    def _replace_result(self, member: Member, node: str, result: str) -> None:
        lookup = member.candidate.lookup
        self._outputs[member.candidate.name] = str(TensorRef.parse(result))
        self._outcome.groups[member.candidate.name] = node
        self._edits.replace(lookup.output, result)
        self._edits.replace_waits(lookup.output.node, node)
        for gather in lookup.gathers if member.candidate.is_dynamic else ():
            self._edits.replace_waits(gather, node)
        self.replaced.update(lookup.nodes)

    def _fuse_update(self, group: UpdateGroup) -> None:
        inside = {name for update in group.updates.values() for name in update.nodes}
        inside.update(name for member in group.members for name in member.gradient_nodes)
        controls = dict.fromkeys(
            source
            for update in group.updates.values()
            for name in update.nodes
            for source in self._view.controls(name)
            if source not in inside
        )
        columns = self._gradient_columns(group.members)
        made = group.kind.write_update(
            self._nodes, group.members, group.updates, list(controls), columns
        )
        for shard, update in group.updates.items():
            self.users_nodes.add_update(made[shard], update)
            for end in (update.end, *update.slot_ends):
                self._edits.replace_waits(end, made[shard])
            self.replaced.update(update.nodes)
            self.replaced.add(update.end)
        for member in group.members:
            self._outcome.gradients.add(member.candidate.name)
            self.replaced.update(member.gradient_nodes)
        parts = []
        for table in group.tables:
            names = [str(lookup.output) for lookup in table.lookups]
            self._outcome.updates.update(names)
            if any(self._is_moved_late(name) for name in table.names):
                self._outcome.deferred.update(names)
            shards = [name for name in table.names if name in group.updates]
            ends = {
                end: made[name]
                for name in shards
                for end in (group.updates[name].end, *group.updates[name].slot_ends)
            }
            parts.append(MergedPart(table.lookups, ends))
        self.merged.append(MergedOp(UPDATE, tuple(parts)))

    def _defer_averages(self) -> None:
        updates = [update for group in self._plan.updates for update in group.updates.values()]
        for made in write_averages(self._view, self._nodes, updates, self._plan.deferred):
            for average in made.averages:
                for name in average.nodes:
                    self._edits.replace_waits(name, made.node)
                self.replaced.update(average.nodes)
                self._outcome.averages_deferred.add(average.table)

    def _is_moved_late(self, table: str) -> bool:
        shard = self._plan.deferred.get(table)
        return shard is not None and shard.moves_every_row

    def _fuse_gradients(self, group: Sequence[Member]) -> None:
        kind = self._plan.kinds[group[0].candidate.name]
        columns = self._gradient_columns(group)
        made = kind.write_gradient(self._view, self._nodes, group, columns)
        for slices, fused in made.items():
            self._edits.replace(slices.values, fused.values.input_name)
            self._edits.replace(slices.indices, fused.indices.input_name)
        for member in group:
            self._outcome.gradients.add(member.candidate.name)
            self.replaced.update(member.gradient_nodes)
        parts = [_part_of_gradient(member, made) for member in group]
        self.merged.append(MergedOp(GRADIENT, tuple(parts)))

    def _sum_before_sending(self, group: Sequence[SentGradient]) -> None:
        members = [member for one in group for member in one.members]
        made = write_rows_of_gradient(
            self._view,
            self._nodes,
            members,
            self._view.device(group[0].sent.slices.values.node),
            self._gradient_columns(members),
            [one.sent.slices.indices for one in group],
            shared_tables=True,
        )
        parts = []
        for one, slices in zip(group, made):
            self._edits.move(one.sent.values_uses, slices.values.input_name)
            self._edits.move(one.sent.indices_uses, slices.indices.input_name)
            self._outcome.gradients.update(str(lookup.output) for lookup in one.lookups)
            self.replaced.update(one.nodes)
            ends = dict.fromkeys([tensor.node for tensor in one.sent.slices], slices.values.node)
            parts.append(MergedPart(one.lookups, ends))
        for member in members:
            self.replaced.update(member.gradient_nodes)
        self.summed_before_sending += len(group)
        self.merged.append(MergedOp(GRADIENT, tuple(parts)))

    def _gradient_columns(self, members: Sequence[Member]) -> Optional[Columns]:
        """The gradient of the ConcatV2's result, if these lookups need no other."""
        concatenation = self._plan.joined_by.get(members[0].candidate.name)
        if concatenation is None or len(members) != concatenation.inputs:
            return None
        by_name = {member.candidate.name: member for member in members}
        if set(by_name) != set(concatenation.lookups):
            return None
        in_order = [by_name[name] for name in concatenation.lookups]
        joined = joined_gradient(self._view, in_order, concatenation)
        if joined is None:
            return None
        self.replaced.update(joined.nodes)
        column = dict(zip(concatenation.lookups, concatenation.columns))
        starts = tuple(column[member.candidate.name] for member in members)
        gradient = self._nodes.columns_of_gradient(joined.tensor, concatenation)
        return Columns(starts, concatenation.width, gradient)

    @property
    def counting_gathers(self) -> Dict[str, str]:
        """The gathers of fused lookups that count keys, and the lookup's name for each."""
        return {
            gather: member.candidate.name
            for group in self._plan.lookups
            for member in group.members
            for gather in member.candidate.lookup.gathers
            if member.candidate.is_dynamic
        }

    def keys_counted_twice(self, dead: AbstractSet[str]) -> Dict[str, Refusal]:
        """Why some lookups of dynamic tables must not be fused, by name."""
        return {
            lookup: keys_counted_twice(self._view, gather)
            for gather, lookup in self.counting_gathers.items()
            if gather not in dead
        }

    @property
    def substitutes(self) -> Dict[str, str]:
        """Maps the result of each fused lookup to the tensor that replaces it."""
        return dict(self._outputs)

    def dense_readers(self, rewritten: GraphView) -> Tuple[DenseReader, ...]:
        """What reads or writes whole tables whose update is deferred."""
        updates = [group.updates[shard] for group in self._plan.updates for shard in group.updates]
        ends = [update.end for update in updates if update.table in self._plan.deferred]
        return dense_readers(self._view, rewritten, self.catch_up.whole_reads, ends)

    def outcomes(self) -> Tuple[FusedLookup, ...]:
        """What became of each lookup."""
        return fused_lookups(self._search, self._outcome)


def _kept_for_fetches(
    view: GraphView, fetched: AbstractSet[TensorRef], substitutes: Dict[str, str]
) -> Dict[str, None]:
    """What is fetched although no step needs it any more, such as the unique ids of a lookup."""
    return view.ancestors(
        tensor.node for tensor in fetched if str(tensor) not in substitutes and tensor.node in view
    )


def _part_of_gradient(member: Member, made: Dict[Slices, Slices]) -> MergedPart:
    assert member.gradient is not None
    stand_ins: Dict[str, str] = {}
    for slices in member.gradient.slices:
        for tensor in (slices.values, slices.indices):
            stand_ins[tensor.node] = made[slices].values.node
    return MergedPart((member.candidate.lookup,), stand_ins)
