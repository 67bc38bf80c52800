"""Which nodes of the user's graph those of fused lookups and updates stand for, for errors."""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from graph_opt.rules.lookup import Lookup
from graph_opt.rules.optimizers.sparse_update import SparseUpdate


class UsersNodes(NamedTuple):
    """The user's nodes, by name of a node that passes have written.

    Attributes:
      gathers: A gather of each of its lookups, in its order.
      of_variables: By name of a variable, the node that reads or updates it.
    """

    gathers: Mapping[str, Tuple[str, ...]]
    of_variables: Mapping[str, Mapping[str, str]]


class UsersNodesBuilder:
    """Collects the user's nodes while a pass writes nodes in their place."""

    def __init__(self) -> None:
        self._gathers: Dict[str, Tuple[str, ...]] = {}
        self._of_variables: Dict[str, Dict[str, str]] = {}

    def add_lookups(self, written: Sequence[str], lookups: Sequence[Lookup]) -> None:
        """Notes that these nodes do these lookups."""
        gathers = tuple(lookup.gathers[0] for lookup in lookups)
        tables = {
            table.name: lookup.gathers[min(part, len(lookup.gathers) - 1)]
            for lookup in reversed(lookups)
            for part, table in enumerate(lookup.tables)
        }
        for name in written:
            self._gathers[name] = gathers
            self._of_variables[name] = dict(tables)

    def add_update(self, written: str, update: SparseUpdate) -> None:
        """Notes that a node does an update, and perhaps others."""
        names = [update.table, *(slot.node for slot in update.slots)]
        self._of_variables.setdefault(written, {}).update(dict.fromkeys(names, update.end))

    def built(self) -> Optional[UsersNodes]:
        """What was noted; None if nothing was."""
        if not self._of_variables:
            return None
        return UsersNodes(dict(self._gathers), dict(self._of_variables))
