"""Decides what becomes one op each: lookups, their gradients, and the updates of their tables."""

from __future__ import annotations

import dataclasses
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.config.options import (
    DEFERRED_ADAM,
    STOCK_ADAM,
    GroupEmbeddingOptions,
    SessionOptions,
)
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.averages import require_no_average, with_average
from graph_opt.passes.fusion.candidates import Candidate, CandidateSearch, Member
from graph_opt.passes.fusion.concatenated_lookups import Concatenation
from graph_opt.passes.fusion.deferred import DeferredVariable, by_variable, deferred_variable
from graph_opt.passes.fusion.group_nodes import GroupNodes
from graph_opt.passes.fusion.groups import (
    LookupGroup,
    as_looked_up,
    cut_by_concatenation,
    gradient_groups,
    lookup_groups,
    update_groups,
)
from graph_opt.passes.fusion.kinds.choice import fused_kind_of
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.outcome import Outcome
from graph_opt.passes.fusion.sent_gradients import (
    SentGradient,
    sent_gradient_groups,
    sent_gradients,
)
from graph_opt.passes.fusion.updated_tables import (
    TrainedTable,
    UpdateGroup,
    table_updates,
    trained_tables,
)
from graph_opt.passes.io_stages import batch_flow
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.prefetch.regions import staying_lookups
from graph_opt.rules.gradients.rows import Slices, require_own_slices
from graph_opt.rules.lookup import FUSED_APIS
from graph_opt.rules.op_names import OWN_UPDATES
from graph_opt.rules.optimizers.sparse_update import (
    SparseUpdate,
    SparseUpdates,
    sparse_updates,
)

# Lookups of which nothing is to be fused.
_UNWANTED = frozenset(["lookup_not_chosen", "group_too_small"])


class FusionPlan(NamedTuple):
    """What to fuse.

    Attributes:
      lookups: One op each; the lookups that a ConcatV2 joins form a separate op.
      updates: One op each, with the gradients that they take.
      gradients: One op each, for lookups whose update is not fused.
      sent: One op each, for gradients that are summed by row before other ranks get them.
      kinds: Where lookups run, by name of the lookup.
      joined_by: The ConcatV2 that joins a lookup's result with others, by name of the lookup.
      deferred: The tables whose update is deferred, by name of the variable.
      outcome: Why the rest is not fused.
      answers: Whether updates on servers answer with rows that they have changed.
      is_fed_apart: Whether fewer ops could look up if all runs fed the same placeholders.
    """

    lookups: Tuple[LookupGroup, ...]
    updates: Tuple[UpdateGroup, ...]
    gradients: Tuple[Tuple[Member, ...], ...]
    sent: Tuple[Tuple[SentGradient, ...], ...]
    kinds: Dict[str, FusedKind]
    joined_by: Dict[str, Concatenation]
    deferred: Dict[str, DeferredVariable]
    outcome: Outcome
    answers: bool
    is_fed_apart: bool

    def group_nodes(self, view: GraphView, scope: str) -> GroupNodes:
        """What collects the nodes of a rewrite by this plan."""
        deferred = by_variable(self.deferred)
        return GroupNodes(view, free_scope(view, scope), deferred, self.answers)


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Parts that must not be fused, although each could be on its own, with the reasons.

    Attributes:
      lookups: By name of the lookup, which is left out with its gradient and update.
      gradients: By name of the lookup.
      updates: By name of the lookup, one entry for each lookup of the table.
    """

    lookups: Dict[str, Refusal] = dataclasses.field(default_factory=dict)
    gradients: Dict[str, Refusal] = dataclasses.field(default_factory=dict)
    updates: Dict[str, Refusal] = dataclasses.field(default_factory=dict)

    def and_also(self, more: LeftOut) -> LeftOut:
        """The union of both; the first of two reasons is kept."""
        return LeftOut(
            {**more.lookups, **self.lookups},
            {**more.gradients, **self.gradients},
            {**more.updates, **self.updates},
        )


class FusionPlanner:
    """Makes plans for one graph.

    Args:
      view: The graph.
      search: Its lookups.
      options: The session's options, with group embedding on.
    """

    def __init__(self, view: GraphView, search: CandidateSearch, options: SessionOptions) -> None:
        assert options.group_embedding is not None
        self._view = view
        self._search = search
        self._options: GroupEmbeddingOptions = options.group_embedding
        self._servers_with_ops = options.servers_with_ops
        self._served = options.served
        self._flow = batch_flow(view)
        self._staying = staying_lookups(view, search.lookups, options.async_embedding)
        prefetch = options.async_embedding
        self._answers = prefetch is not None and (prefetch.exact or bool(prefetch.staleness.limits))

    def plan(self, left_out: LeftOut) -> FusionPlan:
        """Everything that can be fused, except what is left out."""
        outcome = Outcome(
            {**self._search.refused, **left_out.lookups},
            dict(left_out.gradients),
            dict(left_out.updates),
        )
        kinds = self._kinds(outcome)
        placed = [c for c in self._search.candidates if c.name in kinds]
        possible = lookup_groups(self._view, self._flow, placed, kinds, self._staying, self._served)
        groups = [group for group in possible if self._is_large_enough(group, outcome)]
        fused = [member.candidate for group in groups for member in group.members]
        parts, joined_by = self._cut(groups)
        tables = self._trained_tables(fused, outcome)
        found = sparse_updates(self._view, [name for table in tables for name in table.names])
        sent = sent_gradients(self._view, tables, found.found, left_out.gradients)
        updates = self._update_groups(tables, found, kinds, joined_by, outcome)
        taken = {slices for group in updates for m in group.members for slices in _pooled(m)}
        taken.update(slices for one in sent for slices in one.of_lookups)
        members = self._gradients_alone(fused, taken, outcome)
        gradients = gradient_groups(self._view, self._flow, members, kinds, joined_by)
        return FusionPlan(
            tuple(parts),
            as_looked_up(updates, parts),
            tuple(gradients),
            tuple(sent_gradient_groups(self._view, self._flow, sent, joined_by)),
            kinds,
            joined_by,
            self._deferred(updates),
            outcome,
            self._answers,
            any(group.is_fed_apart for group in possible),
        )

    def _gradients_alone(
        self, fused: Sequence[Candidate], taken: Set[Slices], outcome: Outcome
    ) -> List[Member]:
        """Gradients to fuse whose slices something reads; the others of fused updates are not."""
        members = []
        for candidate in fused:
            for gradient in candidate.gradients:
                if candidate.name in outcome.gradient_refused:
                    continue
                if not taken.isdisjoint(gradient.slices):
                    continue
                try:
                    require_own_slices(self._view, gradient)
                    members.append(Member(candidate, gradient))
                except Refusal as refusal:
                    if candidate.name not in outcome.update_refused:
                        outcome.gradient_refused[candidate.name] = refusal
        return members

    def _kinds(self, outcome: Outcome) -> Dict[str, FusedKind]:
        """Where the lookups that can be fused run."""
        kinds: Dict[str, FusedKind] = {}
        for candidate in self._search.candidates:
            if candidate.name in outcome.refused:
                continue
            try:
                kind = fused_kind_of(self._view, candidate)
                self._require_ops(kind, candidate.tables[0])
                kinds[candidate.name] = kind
            except Refusal as refusal:
                outcome.refused[candidate.name] = refusal
        return kinds

    def _require_ops(self, kind: FusedKind, table: str) -> None:
        if self._options.require_server_ops:
            return
        for task in kind.tasks_needing_ops:
            if task not in self._servers_with_ops:
                raise Refusal(
                    "server_without_ops",
                    at=table,
                    need="a parameter server that is known to have loaded graph_opt's ops",
                    saw=task,
                )

    def _is_large_enough(self, group: LookupGroup, outcome: Outcome) -> bool:
        least = self._options.minimum_lookups
        is_own_op = all(m.candidate.lookup.api in FUSED_APIS for m in group.members)
        if len(group.members) >= max(least, 2 if is_own_op else 1):
            return True
        for member in group.members:
            if member.candidate.lookup.api in FUSED_APIS:
                continue  # It is one op as it is.
            outcome.refused[member.candidate.name] = Refusal(
                "group_too_small",
                at=member.candidate.lookup.output.node,
                need="at least {} lookups that can be one op (minimum_lookups)".format(least),
                saw=str(len(group.members)),
            )
        return False

    def _cut(
        self, groups: Sequence[LookupGroup]
    ) -> Tuple[List[LookupGroup], Dict[str, Concatenation]]:
        parts: List[LookupGroup] = []
        joined_by: Dict[str, Concatenation] = {}
        taken: Set[str] = set()
        for group in groups:
            for part in cut_by_concatenation(self._view, group, taken):
                parts.append(part)
                concatenation = part.concatenation
                if concatenation is not None:
                    joined_by.update((name, concatenation) for name in concatenation.lookups)
                    taken.add(concatenation.node)
        return parts, joined_by

    def _trained_tables(self, fused: Sequence[Candidate], outcome: Outcome) -> List[TrainedTable]:
        lookups = [
            lookup
            for lookup in (*self._search.lookups, *self._search.fused)
            if lookup.tables and not _is_unwanted(outcome.refused.get(str(lookup.output)))
        ]
        return trained_tables(lookups, [candidate for candidate in fused if candidate.gradients])

    def _update_groups(
        self,
        tables: Sequence[TrainedTable],
        updates: SparseUpdates,
        kinds: Dict[str, FusedKind],
        joined_by: Dict[str, Concatenation],
        outcome: Outcome,
    ) -> List[UpdateGroup]:
        if not self._options.fuse_update:
            return []
        updates = self._with_averages(updates, outcome)
        found: List[UpdateGroup] = []
        for table in tables:
            if self._is_left(table, updates, outcome):
                continue
            try:
                self._require_allowed_optimizer(table, updates)
                found += table_updates(self._view, table, kinds, updates, self._require_ops)
            except Refusal as refusal:
                names = [str(lookup.output) for lookup in table.lookups]
                if self._view.op(refusal.node) in OWN_UPDATES:
                    outcome.updates.update(names)
                else:
                    outcome.update_refused.update(dict.fromkeys(names, refusal))
        return update_groups(self._view, self._flow, found, joined_by)

    def _with_averages(self, updates: SparseUpdates, outcome: Outcome) -> SparseUpdates:
        """The same updates, with the averages of their tables that can be deferred."""
        found = {}
        for table, update in updates.found.items():
            found[table] = update
            try:
                if update.moves_every_row and self._options.adam != DEFERRED_ADAM:
                    require_no_average(self._view, update, self._options.adam)
                    continue
                found[table] = with_average(self._view, update)
                if found[table].average is not None:
                    outcome.averages.add(table)
            except Refusal as refusal:
                outcome.averages_refused[table] = refusal
        return dataclasses.replace(updates, found=found)

    def _is_left(self, table: TrainedTable, updates: SparseUpdates, outcome: Outcome) -> bool:
        """Whether nothing trains a table, or its update was left out before."""
        if any(str(lookup.output) in outcome.update_refused for lookup in table.lookups):
            return True
        refused = [updates.refusals[name] for name in table.names if name in updates.refusals]
        trained = any(name in updates.found for name in table.names)
        trained = trained or any(refusal.code != "table_assigned" for refusal in refused)
        return not table.fused and not trained

    def _require_allowed_optimizer(self, table: TrainedTable, updates: SparseUpdates) -> None:
        found = [updates.found[name] for name in table.names if name in updates.found]
        moving = [update.optimizer for update in found if update.moves_every_row]
        if moving and self._options.adam == STOCK_ADAM:
            raise Refusal(
                "adam_updates_whole_table",
                at=table.names[0],
                need="group_embedding_options.adam other than 'stock', since TensorFlow's {} "
                "updates every row and a fused update only those looked up".format(moving[0]),
                saw=moving[0],
            )
        self._deferred_ones(found)

    def _deferred(self, groups: Sequence[UpdateGroup]) -> Dict[str, DeferredVariable]:
        updates = [update for group in groups for update in group.updates.values()]
        return {shard.table: shard for shard in self._deferred_ones(updates)}

    def _deferred_ones(self, updates: Iterable[SparseUpdate]) -> List[DeferredVariable]:
        """The tables of those updates that are to be deferred.

        Raises:
          Refusal: One of them cannot be.
        """
        moves = self._options.adam == DEFERRED_ADAM
        late = [each for each in updates if each.average or (moves and each.moves_every_row)]
        return [deferred_variable(self._view, update) for update in late]


def _is_unwanted(refusal: Optional[Refusal]) -> bool:
    return refusal is not None and refusal.code in _UNWANTED


def _pooled(member: Member) -> Tuple[Slices, ...]:
    """The slices that are not needed, since an op takes the gradient of the pooled rows."""
    is_lookup = bool(member.candidate.lookup.gathers)
    return member.gradient.slices if member.gradient and is_lookup else ()
