"""The state of matching a pattern against a graph: what was bound, and how far the match got."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Table

_DIFFERS = "lookup_differs"


class Match:
    """What a pattern has matched in a graph, completely or up to its furthest mismatch.

    Args:
      view: The graph.

    Attributes:
      view: The graph.
      tensors: The bound tensors, by the names given to `tensor`.
      facts: What `gives` recorded.
      nodes: The matched nodes, without constants and reads of tables.
      tables: The table of each node that reads rows, in the order of the pattern.
      unknown: Tensor and need of each condition that unknown static shapes left undecided.
      reached_ops: Op types of all nodes that were matched, even if the match was undone.
      places, nodes_of: The tensor, and the node, that each pattern object matched.
    """

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.tensors: Dict[str, TensorRef] = {}
        self.facts: Dict[str, Any] = {}
        self.nodes: Dict[str, None] = {}
        self.tables: Dict[str, Table] = {}
        self.unknown: Dict[Tuple[TensorRef, str], None] = {}
        self.places: Dict[Any, TensorRef] = {}
        self.nodes_of: Dict[Any, str] = {}
        self.reached_ops: Set[str] = set()
        self._trail: List[Tuple[Dict[Any, Any], Any]] = []
        self._furthest: Tuple[int, Optional[TensorRef], str, str] = (-1, None, "", "")

    def note(self, kind: Dict[Any, Any], key: Any, value: Any) -> None:
        """Adds an entry to one of the match's dicts unless it has one for the key."""
        if key not in kind:
            kind[key] = value
            if kind is self.nodes:
                self.reached_ops.add(self.view.op(key))
            self._trail.append((kind, key))

    def mark(self) -> int:
        """A point to which `undo` can go back."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Removes all entries added since the mark."""
        while len(self._trail) > mark:
            kind, key = self._trail.pop()
            del kind[key]

    def mismatch(self, at: TensorRef, need: str, saw: str = "") -> bool:
        """Records that the graph differs from the pattern here; returns False, for `return`."""
        if len(self._trail) > self._furthest[0]:
            self._furthest = (len(self._trail), at, need, saw)
        return False

    @property
    def steps(self) -> int:
        """How far the pattern got before its furthest mismatch."""
        return self._furthest[0]

    def refusal(self) -> Optional[Refusal]:
        """The furthest mismatch; None if there was none."""
        _, at, need, saw = self._furthest
        if at is None:
            return None
        seen = saw or "output {} of {}".format(at.index, self.view.op(at.node))
        return Refusal(_DIFFERS, at=at.node, need=need, saw=seen)

    def unknown_refusals(self) -> Tuple[Refusal, ...]:
        """The conditions that unknown static shapes left undecided."""
        return tuple(
            Refusal(_DIFFERS, at=at.node, need=need, saw="shapes that are not known")
            for at, need in self.unknown
        )
