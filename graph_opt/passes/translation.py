"""What the names of the user's graph stand for once it is rewritten."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, FrozenSet, Mapping


@dataclasses.dataclass(frozen=True)
class Translation:
    """What passes tell each other and the session about the nodes of the user's graph.

    A tensor may be in both maps by way of its substitute: look in `substitutes` first.

    Attributes:
      substitutes: Result of a fused lookup to the tensor that stands for it.
      taken: Boundary tensor to the output of the take that gives it to main.
      prefetched: Nodes whose values exist in prefetch alone.
      dead: Nodes that stay in the graph, but that no step runs any more.
    """

    substitutes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taken: Mapping[str, str] = dataclasses.field(default_factory=dict)
    prefetched: FrozenSet[str] = frozenset()
    dead: FrozenSet[str] = frozenset()

    @property
    def not_run(self) -> FrozenSet[str]:
        """Nodes of the user's graph that no step of main runs."""
        return self.prefetched.union(self.dead)

    def with_dead(self, dead: AbstractSet[str]) -> Translation:
        """The same with more nodes that no step runs."""
        return dataclasses.replace(self, dead=self.dead.union(dead))


UNCHANGED = Translation()
