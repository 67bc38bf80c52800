"""Which lookups, gradients and updates become one op each."""

from __future__ import annotations

from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Hashable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from graph_opt.compat.op_definitions import value_dtype
from graph_opt.compat.stateful_ops import PLACEHOLDERS
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.concatenated_lookups import Concatenation, split_by_concatenation
from graph_opt.passes.fusion.merge_order import merge_depths, waiting_for
from graph_opt.passes.fusion.placement import Placement
from graph_opt.passes.io_stages import BatchFlow
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.optimizers.sparse_update import SparseUpdate, SparseUpdates

_FLOAT32 = 1


class LookupGroup(NamedTuple):
    """Lookups that become one op, in the order of the ConcatV2 that joins them, if any."""

    placement: Placement
    members: Tuple[Member, ...]
    concatenation: Optional[Concatenation] = None


class UpdateGroup(NamedTuple):
    """Tables whose updates become one op: their lookups with gradients, and the stock updates."""

    placement: Placement
    members: Tuple[Member, ...]
    updates: Dict[str, SparseUpdate]  # by name of the variable


def lookup_groups(
    view: GraphView,
    flow: BatchFlow,
    candidates: Sequence[Candidate],
    placements: Dict[str, Placement],
    staying: AbstractSet[TensorRef],
) -> List[LookupGroup]:
    """Groups lookups that may be one op: same placement and semantics, independent of each other.

    Lookups of different batches stay separate, since a step may need only one of them; so do those
    that read different placeholders, unless the same train op waits for both.

    Args:
      view: The graph.
      flow: Its batch flow.
      candidates: The lookups.
      placements: Where they run, by name of the lookup.
      staying: Results that cannot be prefetched; in one op, they would keep the others from it.
    """
    outputs = {candidate.lookup.output.node for candidate in candidates}
    depths = merge_depths(view, flow.order, outputs)
    feeds = _placeholders_upstream(view, flow, candidates)

    def key(candidate: Candidate) -> Hashable:
        node = candidate.lookup.output.node
        return (
            placements[candidate.name].group_key(candidate.lookup.tables[0].dtype),
            _semantics(candidate),
            depths[node],
            flow.masks.get(node, 0),
            feeds[candidate.name],
            candidate.lookup.output in staying,
        )

    return [
        LookupGroup(_joined([placements[c.name] for c in group]), tuple(Member(c) for c in group))
        for group in _grouped(candidates, key)
    ]


def cut_by_concatenation(
    view: GraphView, group: LookupGroup, taken: AbstractSet[str]
) -> List[LookupGroup]:
    """Splits a group into the lookups that each ConcatV2 joins, and the rest.

    Args:
      view: The graph.
      group: The lookups.
      taken: ConcatV2 nodes that have been replaced already.
    """
    return [
        group._replace(members=members, concatenation=concatenation)
        for members, concatenation in split_by_concatenation(view, group.members, taken)
    ]


def update_groups(
    view: GraphView,
    flow: BatchFlow,
    candidates: Sequence[Candidate],
    placements: Dict[str, Placement],
    joined_by: Dict[str, Concatenation],
    updates: SparseUpdates,
    refuse: Callable[[Candidate, Refusal], None],
) -> List[UpdateGroup]:
    """Groups tables whose updates may be one op.

    Args:
      view: The graph.
      flow: Its batch flow.
      candidates: The lookups whose gradients are known.
      placements: Where they run, by name of the lookup.
      joined_by: The ConcatV2 that joins a lookup's result with others, by name of the lookup.
      updates: The updates that were recognised.
      refuse: Called with the reason why a lookup's update is not fused.
    """
    tables = _grouped(candidates, lambda candidate: candidate.tables)
    units = []
    for group in tables:
        try:
            units.append(_unit(view, group, placements, updates))
        except Refusal as refusal:
            for candidate in group:
                refuse(candidate, refusal)
    ends = {update.end for unit in units for update in unit.updates.values()}
    depths = merge_depths(view, flow.order, ends)

    def key(unit: UpdateGroup) -> Hashable:
        first = next(iter(unit.updates.values()))
        candidate = unit.members[0].candidate
        return (
            unit.placement.group_key(candidate.lookup.tables[0].dtype),
            _semantics(candidate),
            candidate.lookup.tables[0].is_resource,
            _optimizer_key(first),
            max(depths[update.end] for update in unit.updates.values()),
            waiting_for(view, first.end),
            frozenset(joined_by.get(member.candidate.name) for member in unit.members),
        )

    return [
        UpdateGroup(
            _joined([unit.placement for unit in group]),
            tuple(member for unit in group for member in unit.members),
            {name: update for unit in group for name, update in unit.updates.items()},
        )
        for group in _grouped(units, key)
    ]


def _unit(
    view: GraphView,
    candidates: Sequence[Candidate],
    placements: Dict[str, Placement],
    updates: SparseUpdates,
) -> UpdateGroup:
    """One table: its lookups, and the update of each of its shards."""
    names = candidates[0].tables
    found = {name: _update_of(view, name, candidates[0], updates) for name in names}
    keys = {_optimizer_key(update) for update in found.values()}
    if len(keys) > 1:
        raise _unlike(candidates[0], "one optimizer for all shards", "several")
    if len({waiting_for(view, update.end) for update in found.values()}) > 1:
        raise _unlike(candidates[0], "shards updated in the same steps", "several train ops")
    if len({_semantics(c) for c in candidates}) > 1:
        raise _unlike(candidates[0], "lookups of one kind", "safe and other lookups of one table")
    if len({placements[c.name] for c in candidates}) > 1:
        raise _unlike(candidates[0], "lookups on one device", "lookups on several")
    members = [_members(candidates, shard, found[name]) for shard, name in enumerate(names)]
    if any(other != members[0] for other in members):
        raise _unlike(candidates[0], "the same gradients for all shards", "different ones")
    return UpdateGroup(placements[candidates[0].name], members[0], found)


def _update_of(
    view: GraphView, name: str, candidate: Candidate, updates: SparseUpdates
) -> SparseUpdate:
    if name in updates.refusals:
        raise updates.refusals[name]
    if name not in updates.found:
        raise Refusal(
            "update_not_recognised", at=name, need="one sparse update of the table", saw="none"
        )
    update = updates.found[name]
    if candidate.lookup.tables[0].dtype != _FLOAT32:
        raise Refusal(
            "update_dtype", at=update.end, need="a float32 table", saw="a table of another type"
        )
    for value in update.hyperparameters:
        if isinstance(value, TensorRef) and value_dtype(view.dtype(value) or 0) != _FLOAT32:
            raise Refusal(
                "update_dtype", at=value.node, need="a float32 hyperparameter", saw="another type"
            )
    if view.node_uses(update.end):
        raise Refusal(
            "update_output_read",
            at=update.end,
            need="an update that nothing reads",
            saw="a reader of its result: {}".format(view.node_uses(update.end)[0][1].consumer),
        )
    return update


def _members(
    candidates: Sequence[Candidate], shard: int, update: SparseUpdate
) -> Tuple[Member, ...]:
    """The lookups whose gradients are summed into a shard, in the order of the sum.

    Raises:
      Refusal: gradient_changed_before_update.
    """
    known: Dict[Slices, Member] = {}
    for candidate in candidates:
        for gradient in candidate.gradients:
            known[gradient.slices[shard]] = Member(candidate, gradient)
    missing = [part for part in update.parts if part not in known]
    if missing:
        raise Refusal(
            "gradient_changed_before_update",
            at=missing[0].values.node,
            need="the sum of the gradients of recognised lookups",
            saw="a gradient that something else computes or changes",
        )
    return tuple(known[part] for part in update.parts)


def gradient_groups(
    view: GraphView,
    flow: BatchFlow,
    members: Sequence[Member],
    placements: Dict[str, Placement],
    joined_by: Dict[str, Concatenation],
) -> List[Tuple[Member, ...]]:
    """Groups gradients of rows that one op may compute."""
    makers = {
        slices.values.node
        for member in members
        for slices in (member.gradient.slices if member.gradient else ())
    }
    depths = merge_depths(view, flow.order, makers)

    def key(member: Member) -> Hashable:
        assert member.gradient is not None
        nodes = [slices.values.node for slices in member.gradient.slices]
        return (
            placements[member.candidate.name].worker,
            _semantics(member.candidate),
            max(depths[node] for node in nodes),
            frozenset(end for node in nodes for end in _ends(view, node)),
            joined_by.get(member.candidate.name),
        )

    return [tuple(group) for group in _grouped(members, key)]


def _ends(view: GraphView, name: str) -> FrozenSet[str]:
    """The sinks downstream of this node."""
    return frozenset(node for node in view.descendants([name]) if not view.successors(node))


def _semantics(candidate: Candidate) -> Tuple[Hashable, ...]:
    """What all lookups of one op have in common."""
    table = candidate.lookup.tables[0]
    parted = len(candidate.tables) > 1
    return (
        candidate.inputs.safe,
        candidate.inputs.partition_strategy if parted else "",
        table.is_resource,
    )


def _optimizer_key(update: SparseUpdate) -> Hashable:
    return (
        update.optimizer,
        update.hyperparameters,
        tuple(sorted(update.attributes.items())),
    )


def _joined(placements: Sequence[Placement]) -> Placement:
    return placements[0].joined_with(placements[1:])


def _placeholders_upstream(
    view: GraphView, flow: BatchFlow, candidates: Sequence[Candidate]
) -> Dict[str, Hashable]:
    """What must be fed for each lookup, if it reads placeholders."""
    names = view.of_op(*sorted(PLACEHOLDERS))
    masks: Dict[str, int] = {name: 1 << i for i, name in enumerate(names)}
    if names:
        for name in flow.order:
            for following in view.successors(name) if name in masks else ():
                masks[following] = masks.get(following, 0) | masks[name]
    return {c.name: _feeds(view, masks.get(c.lookup.output.node, 0), c) for c in candidates}


def _feeds(view: GraphView, mask: int, candidate: Candidate) -> Hashable:
    if not mask:
        return ""
    trained = frozenset(
        end
        for gradient in candidate.gradients
        for slices in gradient.slices
        for end in _ends(view, slices.values.node)
    )
    return trained or mask


def _unlike(candidate: Candidate, need: str, saw: str) -> Refusal:
    return Refusal("table_updated_unevenly", at=candidate.tables[0], need=need, saw=saw)


def _grouped(items: Sequence[Any], key: Callable[[Any], Hashable]) -> List[List[Any]]:
    groups: Dict[Hashable, List[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
