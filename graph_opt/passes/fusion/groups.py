"""Which lookups, gradients and updates become one op each.

- Lookups: those on the same device that treat ids alike (safe or not, partition strategy), depend
  on the same batch, and do not depend on each other.
- Updates: those with the same rule and the same hyperparameters that the same steps run, which are
  those that the same nodes wait for in the end. In a `tf.cond`, each branch has its own.
"""

from __future__ import annotations

import collections
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    FrozenSet,
    Hashable,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from graph_opt.compat.stateful_ops import PLACEHOLDERS
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Candidate, Member
from graph_opt.passes.fusion.concatenated_lookups import Concatenation, split_by_concatenation
from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.merge_order import merge_depths, waiting_for
from graph_opt.passes.fusion.updated_tables import UpdateGroup, optimizer_key, semantics
from graph_opt.passes.io_stages import BatchFlow

_CONDITIONALS = ("If", "StatelessIf")


class LookupGroup(NamedTuple):
    """Lookups that become one op, in the order of the ConcatV2 that joins them, if any.

    `is_fed_apart` tells that a larger op could do them if all runs fed the same placeholders.
    """

    kind: FusedKind
    members: Tuple[Member, ...]
    concatenation: Optional[Concatenation] = None
    is_fed_apart: bool = False


class StepKey(NamedTuple):
    """What lookups that may be done together have in common.

    Attributes:
      semantics: How they treat ids.
      depth: How many lookups are on the longest path that ends with one.
      batches: Mask of the batches that they read.
      feeds: What decides which runs need them: a mask of placeholders if nothing else does.
      stays: Whether their results cannot be prefetched.
    """

    semantics: Hashable
    depth: int
    batches: int
    feeds: Hashable
    stays: bool


def lookup_groups(
    view: GraphView,
    flow: BatchFlow,
    candidates: Sequence[Candidate],
    kinds: Dict[str, FusedKind],
    staying: AbstractSet[TensorRef],
    served: Sequence[AbstractSet[str]] = (),
) -> List[LookupGroup]:
    """Groups lookups that may be one op: same kind and semantics, independent of each other.

    Lookups of different batches stay separate, since a step may need only one of them; so do those
    that read different placeholders, unless the same train op waits for both, or each request of a
    graph that serves needs both or neither.

    Args:
      view: The graph.
      flow: Its batch flow.
      candidates: The lookups.
      kinds: Where they run, by name of the lookup.
      staying: Results that cannot be prefetched; in one op, they would keep the others from it.
      served: What each kind of request fetches; empty for a graph that does not serve.
    """
    keys = step_keys(view, flow, candidates, staying, served)

    def key(candidate: Candidate) -> Tuple[Hashable, StepKey]:
        kind = kinds[candidate.name].group_key(candidate.lookup.tables[0].dtype)
        return kind, keys[candidate.name]

    def key_if_fed_together(group: Sequence[Candidate]) -> Hashable:
        kind, step = key(group[0])
        return kind, step._replace(feeds=None)

    groups = _grouped(candidates, key)
    alike = collections.Counter(map(key_if_fed_together, groups))
    return [
        LookupGroup(
            _joined([kinds[c.name] for c in group]),
            tuple(Member(c) for c in group),
            is_fed_apart=isinstance(keys[group[0].name].feeds, int)
            and alike[key_if_fed_together(group)] > 1,
        )
        for group in groups
    ]


def step_keys(
    view: GraphView,
    flow: BatchFlow,
    candidates: Sequence[Candidate],
    staying: AbstractSet[TensorRef],
    served: Sequence[AbstractSet[str]] = (),
) -> Dict[str, StepKey]:
    """For each lookup, by name, what it has in common with those that may be done together with it.

    Args: see `lookup_groups`.
    """
    outputs = {candidate.lookup.output.node for candidate in candidates}
    depths = merge_depths(view, flow.order, outputs)
    if served:
        feeds = _requests_with(view, candidates, served)
    else:
        feeds = _placeholders_upstream(view, flow, candidates)

    def key(candidate: Candidate) -> StepKey:
        node = candidate.lookup.output.node
        return StepKey(
            semantics(candidate),
            depths[node],
            flow.masks.get(node, 0),
            feeds[candidate.name],
            candidate.lookup.output in staying,
        )

    return {candidate.name: key(candidate) for candidate in candidates}


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
    updates: Sequence[UpdateGroup],
    joined_by: Dict[str, Concatenation],
) -> List[UpdateGroup]:
    """Groups updates of tables that may be one op.

    Args:
      view: The graph.
      flow: Its batch flow.
      updates: The updates of separate tables.
      joined_by: The ConcatV2 that joins a lookup's result with others, by name of the lookup.
    """
    ends = {update.end for one in updates for update in one.updates.values()}
    depths = merge_depths(view, flow.order, ends)

    def key(one: UpdateGroup) -> Hashable:
        first = next(iter(one.updates.values()))
        candidate = one.members[0].candidate
        return (
            one.kind.group_key(candidate.lookup.tables[0].dtype),
            semantics(candidate),
            optimizer_key(view, first, with_powers=not one.kind.takes_own_powers),
            max(depths[update.end] for update in one.updates.values()),
            waiting_for(view, first.end),
            frozenset(joined_by.get(member.candidate.name) for member in one.members),
        )

    return [
        UpdateGroup(
            _joined([one.kind for one in group]),
            tuple(member for one in group for member in one.members),
            {name: update for one in group for name, update in one.updates.items()},
            tuple({table.names: table for one in group for table in one.tables}.values()),
        )
        for group in _grouped(updates, key)
    ]


def as_looked_up(
    groups: Sequence[UpdateGroup], lookups: Sequence[LookupGroup]
) -> Tuple[UpdateGroup, ...]:
    """Updates with their gradients in the order of the op that looks up just these rows.

    Servers that pooled its bags then sum their gradients, and the worker does not read them again.
    The gradients of one table stay in the order in which TensorFlow adds them, even if there is no
    such op with this order.

    Args:
      groups: The updates.
      lookups: The lookups that are fused, cut as they will be written.
    """
    orders: Dict[FrozenSet[str], List[str]] = {}
    for looked_up in lookups:
        names = [member.candidate.name for member in looked_up.members]
        orders.setdefault(frozenset(names), names)
    return tuple(_ordered(group, orders) for group in groups)


def _ordered(group: UpdateGroup, orders: Mapping[FrozenSet[str], List[str]]) -> UpdateGroup:
    own = {member.candidate.name: member for member in group.members}
    order = orders.get(frozenset(own))
    if order is None or len(own) < len(group.members):
        return group
    members = tuple(own[name] for name in order)
    same = _by_table(members) == _by_table(group.members)
    return group._replace(members=members) if same else group


def _by_table(members: Sequence[Member]) -> Dict[Tuple[str, ...], List[str]]:
    """The names of each table's lookups, in order."""
    found: Dict[Tuple[str, ...], List[str]] = {}
    for member in members:
        found.setdefault(member.candidate.tables, []).append(member.candidate.name)
    return found


def gradient_groups(
    view: GraphView,
    flow: BatchFlow,
    members: Sequence[Member],
    kinds: Dict[str, FusedKind],
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
            kinds[member.candidate.name].worker,
            semantics(member.candidate),
            max(depths[node] for node in nodes),
            frozenset(end for node in nodes for end in _ends(view, node)),
            joined_by.get(member.candidate.name),
        )

    return [tuple(group) for group in _grouped(members, key)]


def _ends(view: GraphView, name: str) -> FrozenSet[str]:
    """The sinks downstream of this node that something is there to run."""
    sinks = [node for node in view.descendants([name]) if not view.successors(node)]
    return frozenset(sink for sink in sinks if not _is_by_the_way(view, sink)) or frozenset(sinks)


def _is_by_the_way(view: GraphView, sink: str) -> bool:
    """Whether TensorFlow adds this to what is asked for: a result of a tf.cond, an assigned value.

    A tf.cond that returns IndexedSlices returns their shape, too.
    """
    op = view.op(sink)
    if op == "ReadVariableOp":
        return bool(view.controls(sink))
    source = view.inputs(sink)[0].node if op == "Identity" else sink
    return view.op(source) in _CONDITIONALS and len(view.successors(source)) > 1


def _joined(kinds: Sequence[FusedKind]) -> FusedKind:
    return kinds[0].joined_with(kinds[1:])


def _requests_with(
    view: GraphView, candidates: Sequence[Candidate], served: Sequence[AbstractSet[str]]
) -> Dict[str, Hashable]:
    """Which kinds of requests need each lookup."""
    needed = [view.ancestors(fetches) for fetches in served]
    return {c.name: tuple(c.lookup.output.node in nodes for nodes in needed) for c in candidates}


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


def _grouped(items: Sequence[Any], key: Callable[[Any], Hashable]) -> List[List[Any]]:
    groups: Dict[Hashable, List[Any]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())
