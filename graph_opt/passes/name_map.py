"""What the names of the user's graph stand for after it has been rewritten."""

from __future__ import annotations

import dataclasses
from typing import AbstractSet, Any, FrozenSet, Mapping, Optional, Tuple, Type, TypeVar

_Part = TypeVar("_Part")


@dataclasses.dataclass(frozen=True)
class NameMap:
    """What passes tell each other and the session about the nodes of the user's graph.

    A tensor's substitute may itself be in `taken`, so look in `substitutes` first.

    Attributes:
      substitutes: Maps the result of each fused lookup to the tensor that replaces it.
      taken: Maps each boundary tensor to the output of the take that passes it to main.
      parts: What single passes have to tell, each an object of a class of its own (`part`).
      prefetched: Nodes whose values exist only in prefetch.
      dead: Nodes that remain in the graph although no step runs them any more.
      summed_batches: Name scope of what computes further batches of a step; "" if there are none.
      moved_by: The passes that moved data edges, by node and input.
      is_stopped: Whether steps run the graph as its user built it, in place of what passes made.
    """

    substitutes: Mapping[str, str] = dataclasses.field(default_factory=dict)
    taken: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: Tuple[Any, ...] = ()
    prefetched: FrozenSet[str] = frozenset()
    dead: FrozenSet[str] = frozenset()
    summed_batches: str = ""
    moved_by: Mapping[Tuple[str, int], Tuple[str, ...]] = dataclasses.field(default_factory=dict)
    is_stopped: bool = False

    @property
    def not_run(self) -> FrozenSet[str]:
        """Nodes of the user's graph that no step of main runs."""
        return self.prefetched.union(self.dead)

    def part(self, kind: Type[_Part]) -> Optional[_Part]:
        """What a pass has to tell by an object of this class; None if it has nothing to tell."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def with_part(self, part: Any) -> NameMap:
        """The same map with a part, in place of another one of its class."""
        others = [each for each in self.parts if not isinstance(each, type(part))]
        return dataclasses.replace(self, parts=(*others, part))

    def with_dead(self, dead: AbstractSet[str]) -> NameMap:
        """The same map with more nodes that no step runs."""
        return dataclasses.replace(self, dead=self.dead.union(dead))


UNCHANGED = NameMap()
