"""Gradients that a rank sums by row before it sends them to the other ranks of a Horovod job.

    before   gradients of lookups -> IndexedSlices, a row for each id -> HorovodAllgather -> update
    after    gradients of lookups -> GroupEmbeddingGrad, a row once ---> HorovodAllgather -> update

The collective stays as it is, name included: a rank whose session fuses nothing meets the others.
"""

from __future__ import annotations

from typing import Container, Dict, Hashable, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.candidates import Member, slices_member
from graph_opt.passes.fusion.concatenated_lookups import Concatenation
from graph_opt.passes.fusion.merge_order import merge_depths
from graph_opt.passes.fusion.updated_tables import TrainedTable, semantics
from graph_opt.passes.io_stages import BatchFlow
from graph_opt.rules.gradients.allgather import SentSlices, sent_slices
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.lookup import Lookup, Table
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.rules.optimizers.update_inputs import parts_of


class SentGradient(NamedTuple):
    """What a rank sends of one table's gradient.

    Attributes:
      sent: The slices, and the edges through which they leave.
      members: The gradients of which they are the sum: of lookups, or other slices.
      table: The table.
      lookups: Its lookups.
      number: Several updates of a table by other slices are numbered.
      nodes: The nodes between the members and the slices.
    """

    sent: SentSlices
    members: Tuple[Member, ...]
    table: Table
    lookups: Tuple[Lookup, ...]
    number: int
    nodes: Tuple[str, ...]

    @property
    def of_lookups(self) -> Tuple[Slices, ...]:
        """The slices of lookups' gradients that need not be computed for it."""
        gradients = [m.gradient for m in self.members if m.candidate.lookup.gathers and m.gradient]
        return tuple(slices for gradient in gradients for slices in gradient.slices)


def sent_gradients(
    view: GraphView,
    tables: Sequence[TrainedTable],
    updates: Mapping[str, SparseUpdate],
    left_out: Container[str],
) -> List[SentGradient]:
    """What is to be summed by row before it is sent.

    Args:
      view: The graph.
      tables: The tables with their lookups.
      updates: The updates that were recognised, by name of the variable.
      left_out: Results of lookups whose gradient is to stay as it is.
    """
    found: List[SentGradient] = []
    for table in tables:
        if any(str(lookup.output) in left_out for lookup in table.lookups):
            continue
        shards = {one.name: one for lookup in table.lookups for one in lookup.tables}
        for name in table.names:
            if name in updates and _is_matrix(shards[name]):
                found.extend(_of_table(view, table, shards[name], updates[name]))
    return found


def sent_gradient_groups(
    view: GraphView,
    flow: BatchFlow,
    gradients: Sequence[SentGradient],
    joined_by: Mapping[str, Concatenation],
) -> List[Tuple[SentGradient, ...]]:
    """Groups those that one op may sum.

    Args:
      view: The graph.
      flow: Its batch flow.
      gradients: The gradients.
      joined_by: The ConcatV2 that joins a lookup's result with others, by name of the lookup.
    """
    depths = merge_depths(view, flow.order, {one.sent.slices.values.node for one in gradients})
    groups: Dict[Hashable, List[SentGradient]] = {}
    for one in gradients:
        maker = one.sent.slices.values.node
        key = (
            view.device(maker),
            semantics(one.members[0].candidate),
            depths[maker],
            one.number,
            frozenset(joined_by.get(member.candidate.name) for member in one.members),
        )
        groups.setdefault(key, []).append(one)
    return [tuple(group) for group in groups.values()]


def _of_table(
    view: GraphView, table: TrainedTable, shard: Table, update: SparseUpdate
) -> Iterator[SentGradient]:
    known = {
        gradient.slices[0]: Member(candidate, gradient)
        for candidate in table.fused
        if candidate.tables == (shard.name,)
        for gradient in candidate.gradients
    }
    for number, part in enumerate(update.parts):
        sent = sent_slices(view, part, frozenset(update.nodes))
        if sent is None:
            continue
        structure = Structure(view)
        parts = parts_of(structure, *sent.slices)
        if len(parts) == 1 and parts[0] in known and _has_rows_once(known[parts[0]]):
            continue  # The op that computes it sums it by row as it is.
        members = [known.get(one, slices_member(shard, one)) for one in parts]
        if len({semantics(member.candidate) for member in members}) > 1:
            members = [slices_member(shard, one) for one in parts]
        nodes = tuple(structure.seen)
        yield SentGradient(sent, tuple(members), shard, table.lookups, number, nodes)


def _has_rows_once(member: Member) -> bool:
    return member.gradient is not None and member.gradient.unique


def _is_matrix(table: Table) -> bool:
    shape = table.shape
    return shape is not None and len(shape) == 2 and None not in shape and 0 not in shape
