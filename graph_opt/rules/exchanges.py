"""Exchanges: lookups for which ranks send each other messages.

Prepare -> ids message -> ExchangeGather -> rows message -> ExchangeCombine
"""

from __future__ import annotations

from typing import Dict, Iterable, NamedTuple, Optional, Tuple

from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import EXCHANGED_LOOKUP, Lookup
from graph_opt.rules.match.table import count_tables
from graph_opt.rules.op_names import ALL_TO_ALL


class Exchange(NamedTuple):
    """The nodes of one exchange that all ranks wait at, and what is between them.

    Attributes:
      ids: The message with requests.
      gather: What reads the rows that all ranks ask for.
      rows: The message with rows.
      combine: What pools them.
    """

    ids: str
    gather: str
    rows: str
    combine: str

    @property
    def messages(self) -> Tuple[str, str]:
        """Both messages."""
        return self.ids, self.rows


def exchanges_of(view: GraphView, lookups: Iterable[Lookup]) -> Tuple[Exchange, ...]:
    """The exchanges that make some of these lookups, in their order."""
    found: Dict[str, Exchange] = {}
    for lookup in lookups:
        combine = lookup.output.node
        if lookup.api == EXCHANGED_LOOKUP and combine not in found:
            gather = lookup.gathers[0]
            ids = _message_above(view, view.inputs(gather)[count_tables(view, gather)])
            rows = _message_above(view, view.inputs(combine)[0])
            if ids is not None and rows is not None:
                found[combine] = Exchange(ids, gather, rows, combine)
    return tuple(found.values())


def _message_above(view: GraphView, received: TensorRef) -> Optional[str]:
    node = received.node
    while view.op(node) != ALL_TO_ALL:
        above = view.inputs(node)
        if not above:
            return None
        node = above[0].node
    return node
