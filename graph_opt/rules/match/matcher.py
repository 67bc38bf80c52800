"""One reading of a graph by a pattern: what was bound, and how far the pattern went."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.rules.lookup import Table

_DIFFERS = "lookup_differs"


class Reading:
    """What a pattern found in a graph, as far as it went.

    Args:
      view: The graph.

    Attributes:
      view: The graph.
      tensors: By the names given to `tensor`.
      facts: What `gives` noted.
      nodes: The nodes of the match, constants and reads of tables left out.
      tables: What each node that reads rows reads, in the order of the pattern.
      unknown: Tensor and need of each condition that only static shapes could tell.
      reached_ops: Op types of the nodes that the pattern met, undone or not.
      places, nodes_of: The tensor, and the node, of each pattern object met.
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
        """Adds an entry to one of the reading's dicts; the first one stays."""
        if key not in kind:
            kind[key] = value
            if kind is self.nodes:
                self.reached_ops.add(self.view.op(key))
            self._trail.append((kind, key))

    def mark(self) -> int:
        """A point to which `undo` goes back."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        """Forgets what was noted since."""
        while len(self._trail) > mark:
            kind, key = self._trail.pop()
            del kind[key]

    def differs(self, at: TensorRef, need: str, saw: str = "") -> bool:
        """Notes that the graph is not as the pattern needs it here; False, for `return`."""
        if len(self._trail) > self._furthest[0]:
            self._furthest = (len(self._trail), at, need, saw)
        return False

    @property
    def steps(self) -> int:
        """How far the pattern went before its furthest mismatch."""
        return self._furthest[0]

    def refusal(self) -> Optional[Refusal]:
        """The furthest mismatch; None where there was none."""
        _, at, need, saw = self._furthest
        if at is None:
            return None
        seen = saw or "output {} of {}".format(at.index, self.view.op(at.node))
        return Refusal(_DIFFERS, at=at.node, need=need, saw=seen)

    def unknown_refusals(self) -> Tuple[Refusal, ...]:
        """What static shapes would have to show."""
        return tuple(
            Refusal(_DIFFERS, at=at.node, need=need, saw="shapes that do not tell")
            for at, need in self.unknown
        )
