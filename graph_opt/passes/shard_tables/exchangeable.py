"""Whether ranks can exchange the rows of a table, and its gradients.

    lookups     each as a whole, or the gathers that it consists of      ids -> rows
    gradients   IndexedSlices that Horovod gathers for the update        gradients of these rows

A gradient that is recognised from a lookup's result on travels as that of the result. Of any other
(clipped, scaled, by a custom function), the slices are what a plain lookup of their indices has as
its gradient: their rows are asked for beside those of the lookups.
"""

from __future__ import annotations

import dataclasses
from typing import (
    AbstractSet,
    Dict,
    FrozenSet,
    Iterator,
    List,
    NamedTuple,
    Sequence,
    Set,
    Tuple,
)

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Candidate, Member, candidate_of, slices_member
from graph_opt.rules.gradients.allgather import SentSlices, sent_slices
from graph_opt.rules.gradients.collectives import dense_collective
from graph_opt.rules.gradients.rows import RowGradient, Slices
from graph_opt.rules.lookup import FUSED_APIS, MARKED, Lookup, Table
from graph_opt.rules.lookups import gather
from graph_opt.rules.match.structure import Structure
from graph_opt.rules.match.table import read_nodes
from graph_opt.rules.op_names import COMBINERS, COUNTED_SEGMENT_REDUCTIONS
from graph_opt.rules.optimizers.sparse_update import SparseUpdate
from graph_opt.rules.optimizers.update_inputs import parts_of

# Optimizers that leave a row as it is if its gradient is zero.
_STILL = frozenset(["GradientDescent", "Adagrad"])


class SentPart(NamedTuple):
    """Slices that Horovod gathers for an update.

    Attributes:
      sent: The slices, and what is gathered of them.
      members: The gradients of which they are the sum, each with the lookup that it is of: one in
        `ExchangeableTable.lookups`, or a plain one of the slices' indices.
      nodes: The nodes between these and the collective.
    """

    sent: SentSlices
    members: Tuple[Member, ...]
    nodes: Tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class ExchangeableTable:
    """A table whose rows can be exchanged.

    Attributes:
      table: The table.
      lookups: What reads its rows.
      parts: What its update takes.
      readers: Nodes that read the variable for these lookups.
      zeros_move: Whether a gradient of zero moves a row, or its slots.
    """

    table: Table
    lookups: Tuple[Candidate, ...]
    parts: Tuple[SentPart, ...]
    readers: FrozenSet[str]
    zeros_move: bool


def require_exchangeable(
    view: GraphView, table: Table, lookups: Sequence[Lookup], update: SparseUpdate
) -> ExchangeableTable:
    """Finds out how the rows of a table, and their gradients, can be exchanged.

    Args:
      view: The graph, after `fold_conditionals`.
      table: The variable, [rows, width].
      lookups: All lookups that read it, of several shards if it is one of those.
      update: How it is trained.

    Raises:
      Refusal: gradient_not_gathered, and those of `lookup_inputs`.
    """
    found = {str(lookup.output): _candidates(view, lookup, table) for lookup in lookups}
    taken = _taken(_parts(view, table, update, found))
    for lookup in lookups:
        # TensorFlow's gradient reads the rows inside of the lookup, which must then be there.
        if any(_has_own_gradient(one, taken) for one in found[str(lookup.output)]):
            found[str(lookup.output)] = _gathers(view, lookup, table)
    parts = tuple(_each_once(table, _parts(view, table, update, found)))
    candidates = tuple(one for several in found.values() for one in several)
    readers = frozenset(_readers(view, candidates))
    # One that moves every row in each step does so without a gradient, too.
    zeros_move = not update.moves_every_row and update.optimizer not in _STILL
    return ExchangeableTable(table, candidates, parts, readers, zeros_move)


def _candidates(view: GraphView, lookup: Lookup, table: Table) -> List[Candidate]:
    """The lookup as a whole, or the gathers of this table that it consists of."""
    if lookup.api in FUSED_APIS or lookup.api == MARKED:
        raise Refusal(
            "rows_not_by_ids",
            at=lookup.output.node,
            need="a lookup by a function of TensorFlow",
            saw=lookup.api,
        )
    if len(lookup.tables) > 1:
        return _gathers(view, lookup, table)
    try:
        return [candidate_of(view, lookup)]
    except Refusal as refusal:
        try:
            return _gathers(view, lookup, table)
        except Refusal:
            raise refusal from None


def _gathers(view: GraphView, lookup: Lookup, table: Table) -> List[Candidate]:
    """What reads the table for a lookup, each on its own, whatever becomes of the rows."""
    pairs = zip(lookup.gathers, lookup.tables)
    names = [name for name, shard in pairs if shard.name == table.name]
    return [_bare(view, name) for name in names]


def _bare(view: GraphView, name: str) -> Candidate:
    found = gather.start(view, name)
    if found is None:
        need = "a lookup of whole rows by their ids"
        raise Refusal("rows_not_by_ids", at=name, need=need, saw=view.op(name))
    if view.op(name) in COMBINERS:
        _, ids, segments = view.inputs(name)[:3]
        found = dataclasses.replace(
            found,
            given={"ids": ids, "segments": segments},
            is_counted=view.op(name) in COUNTED_SEGMENT_REDUCTIONS,
        )
    return candidate_of(view, found)


def _parts(
    view: GraphView, table: Table, update: SparseUpdate, found: Dict[str, List[Candidate]]
) -> List[SentPart]:
    known = {
        gradient.slices[0]: Member(candidate, gradient)
        for several in found.values()
        for candidate in several
        for gradient in candidate.gradients
    }
    return [_sent_part(view, table, update, slices, known) for slices in update.parts]


def _taken(parts: Sequence[SentPart]) -> Set[RowGradient]:
    """The gradients of lookups' results that are all that is needed of them."""
    members = [member for part in parts for member in part.members]
    return {
        member.gradient
        for member in members
        if member.gradient is not None and member.candidate.lookup.gathers
    }


def _has_own_gradient(candidate: Candidate, taken: AbstractSet[RowGradient]) -> bool:
    """Whether TensorFlow still computes a gradient of the lookup."""
    if candidate.backward_refusal is not None:
        return True
    return any(gradient not in taken for gradient in candidate.gradients)


def _sent_part(
    view: GraphView,
    table: Table,
    update: SparseUpdate,
    slices: Slices,
    known: Dict[Slices, Member],
) -> SentPart:
    sent = sent_slices(view, slices, frozenset(update.nodes))
    if sent is None:
        raise _not_gathered(table, update, _found_instead(view, slices.values))
    _require_all_ranks(view, table, update, sent)
    structure = Structure(view)
    parts = parts_of(structure, *sent.slices)
    for part in parts:
        if view.dtype(part.values) is None or view.dtype(part.indices) is None:
            need = "slices made by ops that this process has registered"
            raise Refusal("unknown_op", at=part.values.node, need=need, saw="others")
    members = [known.get(part) or slices_member(table, part) for part in parts]
    return SentPart(sent, tuple(members), tuple(structure.seen))


def _require_all_ranks(
    view: GraphView, table: Table, update: SparseUpdate, sent: SentSlices
) -> None:
    if sent.conditional is not None:
        saw = "a collective that only some steps run, in '{}'".format(sent.conditional)
        raise _not_gathered(table, update, saw)
    if any(_process_set(view, gathered.node) for gathered in sent.gathered):
        raise _not_gathered(table, update, "a collective among some of the ranks only")


def _not_gathered(table: Table, update: SparseUpdate, saw: str) -> Refusal:
    return Refusal(
        "gradient_not_gathered",
        at=update.end,
        need="an update of {} that takes all ranks' IndexedSlices as hvd.allreduce gathers them, "
        "and nothing else that reads these".format(table.name),
        saw=saw,
    )


def _found_instead(view: GraphView, values: TensorRef) -> str:
    dense = dense_collective(view, values)
    if dense is not None:
        return "{} of the whole table".format(dense)
    return "what {} '{}' returns".format(view.op(values.node), values.node)


def _process_set(view: GraphView, name: str) -> int:
    value = view.attribute(name, "process_set_id")
    return 0 if value is None else int(value.i)


def _each_once(table: Table, parts: Sequence[SentPart]) -> Iterator[SentPart]:
    """Takes a gradient that several parts have as that of a lookup once only."""
    taken: Set[TensorRef] = set()
    for part in parts:
        members = []
        for member in part.members:
            gradient = member.gradient
            assert gradient is not None
            if member.candidate.lookup.gathers:
                if member.candidate.lookup.output in taken:
                    member = slices_member(table, gradient.slices[0])
                taken.add(member.candidate.lookup.output)
            members.append(member)
        yield part._replace(members=tuple(members))


def _readers(view: GraphView, candidates: Sequence[Candidate]) -> Iterator[str]:
    for candidate in candidates:
        for name in candidate.lookup.gathers:
            yield name
            yield from read_nodes(view, name)
