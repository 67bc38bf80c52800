"""What is left out of fused ops that would depend on themselves.

    lookup A -> update of A           together   {A, B} -> update of {A, C} -> ids of B -> {A, B}
    update of C -> ids of B -> lookup B

Neither lookup depends on the other, nor does either update, yet merged they close a cycle. The
verifier names the nodes on it, and one of the fused ops among them is broken up: the parts that
close the cycle are left unchanged, and the rest is planned again. A cycle without a fused op is a
defect, as is anything else that the verifier finds, and raises an error.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Callable,
    Dict,
    FrozenSet,
    Iterable,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
)

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.fusion.plan import LeftOut
from graph_opt.reporting.tables import first_of
from graph_opt.rules.lookup import Lookup

# What to give up first: what costs the least.
UPDATE, GRADIENT, LOOKUP = "update", "gradient", "lookup"
_ORDER = (UPDATE, GRADIENT, LOOKUP)
_MAX_NAMES = 8


class MergedPart(NamedTuple):
    """The part of an op for one lookup; of an update, for all lookups of one table.

    Attributes:
      lookups: These lookups.
      stand_ins: Maps the last nodes of what the op replaces in the user's graph to the new node
        that does their work.
    """

    lookups: Tuple[Lookup, ...]
    stand_ins: Dict[str, str]


class MergedOp(NamedTuple):
    """A fused op of kind `lookup`, `gradient` or `update`, and the parts it was merged from."""

    kind: str
    parts: Tuple[MergedPart, ...]


def parts_on_cycles(
    view: GraphView,
    merged: Sequence[MergedOp],
    replaced: AbstractSet[str],
    cycles: Iterable[FrozenSet[str]],
) -> LeftOut:
    """The parts to leave out in order to break cycles.

    Args:
      view: The graph before it was rewritten.
      merged: The new ops.
      replaced: Nodes of the graph whose work the new ops do.
      cycles: Sets of nodes of the rewritten graph that all depend on each other.

    Returns:
      What to leave out, with the reason; nothing if no new op is part of a cycle.
    """
    search = _Search(view, merged, replaced)
    left = LeftOut()
    for cycle in cycles:
        left = left.and_also(search.broken(cycle))
    return left


class _Ring(NamedTuple):
    """An op on a cycle: the parts that read from the cycle, and those that the cycle reads."""

    op: MergedOp
    readers: List[MergedPart]
    read: List[MergedPart]

    @property
    def fewest(self) -> List[MergedPart]:
        """The fewest parts without which the op is not on the cycle."""
        sides = [side for side in (self.read, self.readers) if side]
        return min(sides, key=len) if sides else list(self.op.parts)


class _Search:
    def __init__(
        self, view: GraphView, merged: Sequence[MergedOp], replaced: AbstractSet[str]
    ) -> None:
        self._view = view
        self._merged = merged
        self._replaced = replaced
        self._stand_ins = {
            end: node for op in merged for part in op.parts for end, node in part.stand_ins.items()
        }

    def broken(self, cycle: FrozenSet[str]) -> LeftOut:
        rings = [self._ring(op, cycle) for op in self._merged if _is_on(op, cycle)]
        chosen = _cheapest(rings)
        if chosen is None:
            return LeftOut()
        tied = [part for ring in rings for part in (*ring.readers, *ring.read)]
        labels = dict.fromkeys(one.name for part in tied for one in part.lookups)
        found = {
            str(lookup.output): _refusal(part, chosen.op.kind, list(labels))
            for part in chosen.fewest
            for lookup in part.lookups
        }
        return LeftOut(
            found if chosen.op.kind == LOOKUP else {},
            found if chosen.op.kind == GRADIENT else {},
            found if chosen.op.kind == UPDATE else {},
        )

    def _ring(self, op: MergedOp, cycle: FrozenSet[str]) -> _Ring:
        view = self._view
        return _Ring(
            op,
            [part for part in op.parts if self._meets(part, view.predecessors, cycle)],
            [part for part in op.parts if self._meets(part, view.successors, cycle)],
        )

    def _meets(
        self, part: MergedPart, step: Callable[[str], List[str]], cycle: FrozenSet[str]
    ) -> bool:
        """Whether one of the nearest nodes that still run, in this direction, is on the cycle."""
        seen = set(part.stand_ins)
        pending = list(part.stand_ins)
        while pending:
            for name in step(pending.pop()):
                if name in seen:
                    continue
                seen.add(name)
                if self._stand_ins.get(name, name) in cycle:
                    return True
                if name in self._replaced and name not in self._stand_ins:
                    pending.append(name)
        return False


def _is_on(op: MergedOp, cycle: FrozenSet[str]) -> bool:
    return any(not cycle.isdisjoint(part.stand_ins.values()) for part in op.parts)


def _cheapest(rings: Sequence[_Ring]) -> Optional[_Ring]:
    return min(rings, key=lambda ring: (_ORDER.index(ring.op.kind), len(ring.fewest)), default=None)


def _refusal(part: MergedPart, kind: str, labels: Sequence[str]) -> Refusal:
    listed = first_of(labels, _MAX_NAMES)
    return Refusal(
        "fusion_makes_a_cycle",
        at=next(iter(part.stand_ins)),
        need="a {} that does not depend on itself once it is merged with others".format(kind),
        saw="a cycle through the lookups " + listed,
    )
