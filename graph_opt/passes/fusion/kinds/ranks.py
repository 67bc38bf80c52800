"""Tables sharded across ranks, of which this one updates its part.

gradients from all ranks ──> ExchangeApply      instead of
gradients from all ranks ──> ExchangeGatherGrad ──> IndexedSlices ──> GroupEmbeddingApply
"""

from __future__ import annotations

import dataclasses
from typing import Dict, Hashable, Optional, Sequence, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.fusion.candidates import Member
from graph_opt.passes.fusion.group_nodes import FUSED, Columns, GroupNodes, colocated
from graph_opt.passes.fusion.kinds.local import FusedLocal
from graph_opt.passes.fusion.update_arguments import update_arguments
from graph_opt.rules.gradients.allgather import number_key
from graph_opt.rules.gradients.exchanged import ReceivedGradients, table_gradient
from graph_opt.rules.gradients.rows import Slices
from graph_opt.rules.optimizers.sparse_update import SparseUpdate


@dataclasses.dataclass(frozen=True)
class FusedOnRanks(FusedLocal):
    """All tables of a group get their gradients by one exchange.

    Attributes:
      received: The gradients.
      divided_by: The same for equal divisors of their sums.
      divisor: That divisor; None if sums are not divided.
      places: The number of each table of the group among those of the exchange.
    """

    received: ReceivedGradients
    divided_by: Hashable
    divisor: Optional[TensorRef] = dataclasses.field(compare=False)
    places: Tuple[int, ...] = dataclasses.field(compare=False)

    @classmethod
    def of_slices(cls, view: GraphView, device: str, slices: Slices) -> Optional[FusedOnRanks]:
        """What fuses the update of a table with others, or None if its gradient is another one.

        Args:
          view: The graph.
          device: Of the table.
          slices: Its gradient.
        """
        found = table_gradient(view, slices)
        if found is None:
            return None
        key = None if found.divisor is None else number_key(view, found.divisor)
        return cls(device, device, found.received, key, found.divisor, (found.place,))

    def joined_with(self, others: Sequence[FusedOnRanks]) -> FusedOnRanks:
        """See `FusedKind`."""
        places = [place for one in (self, *others) for place in one.places]
        return dataclasses.replace(self, places=tuple(places))

    def write_update(
        self,
        nodes: GroupNodes,
        members: Sequence[Member],
        updates: Dict[str, SparseUpdate],
        controls: Sequence[str],
        columns: Optional[Columns],
    ) -> Dict[str, str]:
        """See `FusedKind`. Requests can only be read if all tables that they are about are here."""
        received = self.received
        tables = {place: member.candidate for place, member in zip(self.places, members)}
        if len(tables) < len(members) or not tables.keys() >= set(received.served):
            return super().write_update(nodes, members, updates, controls, columns)
        order = sorted(tables)
        shards = [tables[place].tables[0] for place in order]
        is_resource = tables[order[0]].lookup.tables[0].is_resource
        requests, splits, gradients = received.inputs
        writer = nodes.writer("update", self.tables)
        attributes = update_arguments(
            writer, shards, updates, nodes.deferred, with_own=self.takes_own_powers
        )
        attributes[FUSED] = True
        apply = writer.call(
            "apply",
            "ResourceExchangeApply" if is_resource else "ExchangeApply",
            waits_for=list(dict.fromkeys([*controls, *received.waits_for])),
            tables=[TensorRef(shard, 0) for shard in shards],
            requests=requests,
            splits=splits,
            gradients=gradients,
            divisor=[] if self.divisor is None else [self.divisor],
            table_names=[received.names[place] for place in order],
            table_widths=[received.widths[place] for place in order],
            served=[number for number, place in enumerate(order) if place in received.served],
            **attributes,
            **colocated(shards, is_resource),
        )
        return {shard: apply.name for shard in shards}
