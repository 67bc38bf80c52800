"""The kinds of tables: what each place of tables means for the passes that handle lookups.

A kind of table that is added here is fused, caught up, and runs ahead with exact rows;
docs/extending.md tells what else it needs.
"""

from __future__ import annotations

import dataclasses
from typing import FrozenSet, Optional, Tuple, Type

from graph_opt.passes.fusion.kinds.kind import FusedKind
from graph_opt.passes.fusion.kinds.local import FusedLocal
from graph_opt.passes.fusion.kinds.servers import FusedOnServers
from graph_opt.passes.prefetch.exact.kind import ExactKind
from graph_opt.passes.prefetch.exact.local import ExactLocal
from graph_opt.passes.prefetch.exact.ranks import ExactOnRanks
from graph_opt.passes.prefetch.exact.servers import ExactOnServers
from graph_opt.rules.op_names import (
    EXCHANGE_COMBINE,
    GROUP_COMBINE,
    GROUP_LOOKUPS,
    GROUP_PACK,
    LOCAL_UPDATES,
    PACKED_UPDATES,
)


@dataclasses.dataclass(frozen=True)
class TableKind:
    """Where tables are kept.

    Attributes:
      name: In one word.
      lookup_ops: The ops that return the results of fused lookups.
      update_ops: Those that take part in their updates.
      exact: How rows that were looked up ahead are refreshed.
      fused: How lookups of TensorFlow's functions are fused, their tables updated, and rows
        caught up whose updates are deferred. None if an earlier pass writes all this.
      is_sampled: Whether a session can measure how many updates rows have missed.
    """

    name: str
    lookup_ops: FrozenSet[str]
    update_ops: FrozenSet[str]
    exact: Type[ExactKind]
    fused: Optional[Type[FusedKind]] = None
    is_sampled: bool = True


KINDS: Tuple[TableKind, ...] = (
    TableKind(
        "servers",
        frozenset([GROUP_COMBINE]),
        PACKED_UPDATES | {GROUP_PACK},
        ExactOnServers,
        FusedOnServers,
    ),
    # The pass shard_tables writes lookups and updates of ranks.
    TableKind(
        "ranks", frozenset([EXCHANGE_COMBINE]), LOCAL_UPDATES, ExactOnRanks, is_sampled=False
    ),
    TableKind("local", GROUP_LOOKUPS, LOCAL_UPDATES, ExactLocal, FusedLocal),
)
"""All kinds; a lookup is of the first that includes its tables."""

_FUSED = [kind for kind in KINDS if kind.fused is not None]
FUSED_LOOKUPS = tuple(op for kind in _FUSED for op in sorted(kind.lookup_ops))
"""The ops that `do_group_embedding` makes of lookups."""
FUSED_UPDATES = tuple(op for kind in _FUSED for op in sorted(kind.update_ops))
"""Those that it makes of updates."""


def kind_of(op: str) -> Optional[TableKind]:
    """The kind of the tables that an op looks up; None if it is no fused lookup."""
    return next((kind for kind in KINDS if op in kind.lookup_ops), None)
