"""Which lookups become one exchange: all that are of one dtype and batch."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Dict, Hashable, List, NamedTuple, Sequence, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import fills_row_0
from graph_opt.passes.fusion.groups import step_keys
from graph_opt.passes.io_stages import BatchFlow, batch_flow
from graph_opt.passes.shard_tables.exchangeable import ExchangeableTable
from graph_opt.sharding.placement import RowsRule


class TableRefusal(Refusal):
    """Why the rows of one table cannot be exchanged beside those of the others.

    Attributes:
      table: Name of the variable.
    """

    def __init__(self, table: str, *, at: str, need: str, saw: str) -> None:
        super().__init__("gradient_not_gathered", at=at, need=need, saw=saw)
        self.table = table


class Entry(NamedTuple):
    """A table of an exchange: one for each sum of gradients.

    Attributes:
      name: Name of the variable.
      part: Number of the update's slices that its gradients are for.
    """

    name: str
    part: int


class ExchangedLookup(NamedTuple):
    """A lookup of an exchange.

    Attributes:
      member: The lookup, with the gradient that it gives the entry, if it gives it one.
      entry: What it reads.
      fills: Whether that gradient includes one of zero for row 0 if there is an empty bag.
    """

    member: Member
    entry: Entry
    fills: bool = False


@dataclasses.dataclass
class Exchange:
    """Lookups that become one exchange, in order."""

    lookups: List[ExchangedLookup]

    @property
    def entries(self) -> Tuple[Entry, ...]:
        """Its tables, in order."""
        return tuple(dict.fromkeys(lookup.entry for lookup in self.lookups))

    def trains(self, entry: Entry) -> bool:
        """Whether it gives an entry gradients."""
        return any(one.entry == entry and one.member.gradient for one in self.lookups)


class ExchangedTable(NamedTuple):
    """A table whose lookups become exchanges.

    Attributes:
      exchangeable: How.
      rows: How its rows are sharded.
    """

    exchangeable: ExchangeableTable
    rows: RowsRule

    @property
    def name(self) -> str:
        """Name of the variable."""
        return self.exchangeable.table.name


def exchanges(
    view: GraphView, tables: Sequence[ExchangedTable], staying: AbstractSet[TensorRef]
) -> List[Exchange]:
    """Groups the lookups of all tables.

    Args:
      view: The graph.
      tables: The tables.
      staying: Results that cannot be prefetched; in one exchange, they would keep others from it.

    Raises:
      TableRefusal: Rows of a table that have a gradient are not known before it is.
    """
    flow = batch_flow(view)
    candidates = [one for table in tables for one in table.exchangeable.lookups]
    keys = step_keys(view, flow, candidates, staying)
    groups: Dict[Hashable, Exchange] = {}
    for table in tables:
        for lookup in _lookups(table):
            candidate = lookup.member.candidate
            key = (candidate.lookup.tables[0].dtype, keys[candidate.name])
            groups.setdefault(key, Exchange([])).lookups.append(lookup)
    found = list(groups.values())
    for table in tables:
        for lookup in _of_slices(table):
            _beside_lookups(view, flow, found, lookup)
    return found


def _lookups(table: ExchangedTable) -> List[ExchangedLookup]:
    """The lookups of a table, each with its gradient."""
    taken: Dict[str, Tuple[Member, int]] = {}
    for number, part in enumerate(table.exchangeable.parts):
        for member in part.members:
            if member.candidate.lookup.gathers:
                taken[member.candidate.name] = member, number
    found = []
    for candidate in table.exchangeable.lookups:
        member, number = taken.get(candidate.name, (Member(candidate), 0))
        fills = bool(member.gradient) and table.exchangeable.zeros_move and fills_row_0(candidate)
        found.append(ExchangedLookup(member, Entry(table.name, number), fills))
    return found


def _of_slices(table: ExchangedTable) -> List[ExchangedLookup]:
    """Lookups that are there for their gradient alone."""
    return [
        ExchangedLookup(member, Entry(table.name, number))
        for number, part in enumerate(table.exchangeable.parts)
        for member in part.members
        if not member.candidate.lookup.gathers
    ]


def _beside_lookups(
    view: GraphView, flow: BatchFlow, groups: Sequence[Exchange], lookup: ExchangedLookup
) -> None:
    """Adds a lookup to the first exchange that can ask for its rows, too."""
    indices = lookup.member.candidate.inputs.ids.node
    behind = view.ancestors([indices])
    batch = flow.masks.get(indices, 0)
    for group in groups:
        members = [one.member.candidate for one in group.lookups]
        of_table = any(one.entry.name == lookup.entry.name for one in group.lookups)
        outputs = {one.lookup.output.node for one in members if one.lookup.gathers}
        batches = {flow.masks.get(name, 0) for name in outputs}
        if of_table and outputs.isdisjoint(behind) and _is_of(batch, batches):
            group.lookups.append(lookup)
            return
    raise TableRefusal(
        lookup.entry.name,
        at=indices,
        need="rows of {} that are known before their gradients".format(lookup.entry.name),
        saw="rows that are computed from what was looked up, or from another batch",
    )


def _is_of(batch: int, batches: AbstractSet[int]) -> bool:
    return not batch or batches == {batch}
