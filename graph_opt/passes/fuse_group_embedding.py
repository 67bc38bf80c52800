"""Substitutes one op for many lookups: forward, backward and update.

    before   ids_i -> 2 to 60 ops -> pooled_i     gradient of pooled_i -> 10 ops -> apply_i
    after    ids_0 .. ids_n -> GroupEmbeddingLookup -> pooled_0 .. pooled_n
             gradients of pooled_0 .. pooled_n -> GroupEmbeddingApply

What cannot be done with the same numbers stays, each part for itself: a lookup whose update is not
recognised gets its gradient by one op (`GroupEmbeddingGrad`), one whose gradient is not recognised
keeps its own backward part. The stock nodes stay in the graph under their names; nothing runs them.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from graph_opt.compat import tf
from graph_opt.config.options import GroupEmbeddingOptions, SessionOptions
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.rewrite import ControlEdit, InputEdit, Rewrite
from graph_opt.graph.verify import GraphError
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes import local_group, packed_group
from graph_opt.passes.concatenated_lookups import Concatenation, joined_gradient
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.fusion_candidates import (
    Candidate,
    CandidateSearch,
    Member,
    find_candidates,
)
from graph_opt.passes.fusion_groups import (
    LookupGroup,
    Place,
    UpdateGroup,
    cut_by_concatenation,
    gradient_groups,
    lookup_groups,
    place_of,
    update_groups,
)
from graph_opt.passes.fusion_outcome import Outcome, fused_lookups, left_lookups
from graph_opt.passes.group_nodes import FUSED, Columns, GroupNodes
from graph_opt.passes.io_stages import batch_flow
from graph_opt.passes.local_group import output_name
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.protect_gathers import exposed_reads
from graph_opt.passes.unused_gradients import unused_gradients
from graph_opt.reporting.report import Report
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.sparse_update import SparseUpdate, sparse_updates

_SCOPE = "group_embedding"
_OURS = ("GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup", "GroupEmbeddingCombine")


def fuse_group_embedding(state: PassState, options: SessionOptions) -> PassState:
    """The graph with its lookups fused, and the report of it.

    Raises:
      FailedPreconditionError: the graph's lookups were fused before.
    """
    wanted = options.group_embedding
    if wanted is None:
        return state
    _refuse_fused(state.view)
    search = find_candidates(state.view, wanted)
    refusals = tuple(refusal.to_dict() for refusal in search.refusals)
    state = dataclasses.replace(state, report=dataclasses.replace(state.report, refusals=refusals))
    # Merging can close a circle through nodes that nobody merged; then less is merged.
    for parts in (_Parts(True, True), _Parts(True, False), _Parts(False, False)):
        fusion = _Fusion(state.view, search, options, parts)
        rewrite = fusion.rewrite()
        try:
            fused = state.rewritten(rewrite)
        except GraphError:
            continue
        # tf.gradients forces gradients that nobody reads; they must not keep a lookup alive.
        forced = unused_gradients(fused.view).nodes
        dead = dead_nodes(fused.view, fusion.replaced.union(forced))
        return dataclasses.replace(
            fused.without(dead),
            report=fusion.report(state.report, dead),
            translation=dataclasses.replace(
                fused.translation.with_dead(dead), substitutes=fusion.substitutes
            ),
        )
    left = left_lookups(search, _circle(search))
    return dataclasses.replace(state, report=dataclasses.replace(state.report, fused_lookups=left))


class _Parts(NamedTuple):
    """Which parts are fused besides forward."""

    gradients: bool
    updates: bool


class _Fusion:
    """One run of the pass over one graph."""

    def __init__(
        self,
        view: GraphView,
        search: CandidateSearch,
        options: SessionOptions,
        parts: _Parts,
    ) -> None:
        assert options.group_embedding is not None
        self._view = view
        self._search = search
        self._options: GroupEmbeddingOptions = options.group_embedding
        self._servers_with_ops = options.servers_with_ops
        self._parts = parts
        self._flow = batch_flow(view)
        self._nodes = GroupNodes(view, _free_scope(view))
        self._inputs: Dict[Tuple[str, int], str] = {}
        self._controls: Dict[str, Dict[str, str]] = {}
        self._moved: Dict[str, str] = {}
        self._outcome = Outcome(dict(search.refused))
        self._places: Dict[str, Place] = {}
        self._outputs: Dict[str, str] = {}
        self._joined_by: Dict[str, Concatenation] = {}
        self._concatenated: Set[str] = set()
        self.replaced: Set[str] = set()

    def rewrite(self) -> Rewrite:
        """The rewrite; empty where nothing can be fused."""
        candidates = self._placed(self._search.candidates)
        groups = [
            group
            for group in lookup_groups(self._view, self._flow, candidates, self._places)
            if self._is_large_enough(group)
        ]
        fused = [member.candidate for group in groups for member in group.members]
        for group in groups:
            for part in cut_by_concatenation(self._view, group, self._concatenated):
                self._fuse_forward(part)
        done: Set[Slices] = set()
        if self._parts.updates and self._options.fuse_update:
            for updates in self._update_groups(fused):
                self._fuse_update(updates)
                done.update(s for m in updates.members for s in _slices(m))
        if self._parts.gradients:
            self._fuse_gradients(fused, done)
        self._redirect_new_nodes()
        return Rewrite(
            tuple(self._nodes.nodes),
            tuple(InputEdit(node, slot, tensor) for (node, slot), tensor in self._inputs.items()),
            tuple(
                ControlEdit(node, tuple(moved), tuple(dict.fromkeys(moved.values())))
                for node, moved in self._controls.items()
            ),
        )

    def _placed(self, candidates: Sequence[Candidate]) -> List[Candidate]:
        placed = []
        for candidate in candidates:
            try:
                place = place_of(self._view, candidate)
                self._require_server_ops(candidate, place)
                self._places[candidate.name] = place
                placed.append(candidate)
            except Refusal as refusal:
                self._outcome.refused[candidate.name] = refusal
        return placed

    def _require_server_ops(self, candidate: Candidate, place: Place) -> None:
        if self._options.require_server_ops:
            return
        for server in place.servers:
            if server not in self._servers_with_ops:
                raise Refusal(
                    "server_without_ops",
                    at=candidate.tables[0],
                    need="a parameter server that is known to have loaded graph_opt's ops",
                    saw=server,
                )

    def _is_large_enough(self, group: LookupGroup) -> bool:
        least = self._options.minimum_lookups
        if len(group.members) >= least:
            return True
        for member in group.members:
            self._outcome.refused[member.candidate.name] = Refusal(
                "group_too_small",
                at=member.candidate.lookup.output.node,
                need="{} lookups that can be one op (minimum_lookups)".format(least),
                saw=str(len(group.members)),
            )
        return False

    def _fuse_forward(self, group: LookupGroup) -> None:
        concatenation = group.concatenation
        columns = None
        if concatenation is not None:
            columns = Columns(concatenation.columns, concatenation.width)
            self._joined_by.update((name, concatenation) for name in concatenation.lookups)
            self._concatenated.add(concatenation.node)
        kind = packed_group if group.place.servers else local_group
        node = kind.write_lookup(self._nodes, group, columns)
        output = group.members[0].candidate.lookup.output
        writer = self._nodes.writer("result", self._view.device(output.node))
        if concatenation is not None:
            self._redirect(*self._nodes.joined(writer, node, concatenation))
            self.replaced.update((*concatenation.nodes, concatenation.node))
        for number, member in enumerate(group.members):
            if columns is None:
                result = self._nodes.restored(writer, member, output_name(node, number))
            else:
                result = self._nodes.column(writer, member, node, columns.starts[number])
            self._replace_result(member, node, result)

    def _replace_result(self, member: Member, node: str, result: str) -> None:
        lookup = member.candidate.lookup
        self._outputs[member.candidate.name] = str(TensorRef.parse(result))
        self._outcome.groups[member.candidate.name] = node
        self._redirect(lookup.output, result)
        self._redirect_waits(lookup.output.node, node)
        self.replaced.update(lookup.nodes)

    def _update_groups(self, candidates: Sequence[Candidate]) -> List[UpdateGroup]:
        trained = [candidate for candidate in candidates if candidate.gradients]
        tables = dict.fromkeys(name for candidate in trained for name in candidate.tables)
        updates = sparse_updates(self._view, list(tables))

        def refuse(candidate: Candidate, refusal: Refusal) -> None:
            self._outcome.update_refused[candidate.name] = refusal

        allowed = self._allowed_optimizers(trained, updates.found, refuse)
        return update_groups(
            self._view, self._flow, allowed, self._places, self._joined_by, updates, refuse
        )

    def _allowed_optimizers(
        self,
        trained: Sequence[Candidate],
        found: Dict[str, SparseUpdate],
        refuse: Callable[[Candidate, Refusal], None],
    ) -> List[Candidate]:
        allowed = []
        for candidate in trained:
            rules = {found[name].optimizer for name in candidate.tables if name in found}
            if "Adam" in rules and not self._options.lazy_adam:
                refuse(candidate, _adam_refusal(candidate))
            else:
                allowed.append(candidate)
        return allowed

    def _fuse_update(self, group: UpdateGroup) -> None:
        inside = {name for update in group.updates.values() for name in update.nodes}
        inside.update(name for member in group.members for name in _gradient_nodes(member))
        controls = dict.fromkeys(
            source
            for update in group.updates.values()
            for name in update.nodes
            for source in self._view.controls(name)
            if source not in inside
        )
        columns = self._gradient_columns(group.members)
        kind = packed_group if group.place.servers else local_group
        made = kind.write_update(self._nodes, group, list(controls), columns)
        for shard, update in group.updates.items():
            self._redirect_waits(update.end, made[shard])
            self.replaced.update(update.nodes)
            self.replaced.add(update.end)
        for member in group.members:
            self._outcome.gradients.add(member.candidate.name)
            self._outcome.updates.add(member.candidate.name)
            self.replaced.update(_gradient_nodes(member))

    def _fuse_gradients(self, candidates: Sequence[Candidate], done: Set[Slices]) -> None:
        members = [
            Member(candidate, gradient)
            for candidate in candidates
            for gradient in candidate.gradients
            if gradient.unique and not done.intersection(gradient.slices)
        ]
        for group in gradient_groups(
            self._view, self._flow, members, self._places, self._joined_by
        ):
            device = self._places[group[0].candidate.name].worker
            columns = self._gradient_columns(group)
            made = local_group.write_gradient(self._view, self._nodes, group, device, columns)
            for slices, fused in made.items():
                self._redirect(slices.values, fused.values.input_name)
                self._redirect(slices.indices, fused.indices.input_name)
            for member in group:
                self._outcome.gradients.add(member.candidate.name)
                self.replaced.update(_gradient_nodes(member))

    def _gradient_columns(self, members: Sequence[Member]) -> Optional[Columns]:
        """The gradient of the ConcatV2's result, where it is all that these lookups need."""
        concatenation = self._joined_by.get(members[0].candidate.name)
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

    def _redirect_new_nodes(self) -> None:
        """New nodes were written with the tensors that stood there before."""
        for node in self._nodes.nodes:
            node.input[:] = [self._moved.get(text, text) for text in node.input]

    def _redirect(self, tensor: TensorRef, to: str) -> None:
        self._moved[tensor.input_name] = to
        for use in self._view.uses(tensor):
            self._inputs[use.consumer, use.slot] = to

    def _redirect_waits(self, source: str, to: str) -> None:
        self._moved["^" + source] = "^" + to
        for waiting in self._view.control_uses(source):
            self._controls.setdefault(waiting, {})[source] = to

    @property
    def substitutes(self) -> Dict[str, str]:
        """Result of each fused lookup to the tensor that stands for it."""
        return dict(self._outputs)

    def report(self, before: Report, dead: Set[str]) -> Report:
        """What became of each lookup."""
        freed = [read.gather for read in exposed_reads(self._view) if read.reduction in dead]
        return dataclasses.replace(
            before,
            fused_lookups=fused_lookups(self._search, self._outcome),
            whole_table_reads_removed=tuple(freed),
        )


def _slices(member: Member) -> Tuple[Slices, ...]:
    return member.gradient.slices if member.gradient else ()


def _gradient_nodes(member: Member) -> Tuple[str, ...]:
    return member.gradient.nodes if member.gradient else ()


def _adam_refusal(candidate: Candidate) -> Refusal:
    return Refusal(
        "adam_updates_whole_table",
        at=candidate.tables[0],
        need="group_embedding_options.lazy_adam, since TensorFlow's Adam updates every row and "
        "a fused update only those looked up",
        saw="Adam",
    )


def _circle(search: CandidateSearch) -> Refusal:
    return Refusal(
        "fusion_makes_a_circle",
        at=search.lookups[0].output.node,
        need="lookups that do not depend on each other",
        saw="a circle once they are one op",
    )


def _free_scope(view: GraphView) -> str:
    taken = {name.partition("/")[0] for name in view.nodes}
    scope, number = _SCOPE, 0
    while scope in taken:
        number += 1
        scope = "{}_{}".format(_SCOPE, number)
    return scope


def _refuse_fused(view: GraphView) -> None:
    for name in view.of_op(*_OURS):
        if view.attribute(name, FUSED) is not None:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "the graph's lookups were fused before (node '{}'): group embedding is applied "
                "once, to the graph as the model made it".format(name),
            )
