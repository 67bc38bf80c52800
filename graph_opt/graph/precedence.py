"""Which of some nodes come before which nodes of a graph, for many questions at the cost of one."""

from __future__ import annotations

from typing import Iterable, List

from graph_opt.graph.control_flow_ops import BACK_EDGE_SOURCES
from graph_opt.graph.view import GraphView


class Precedence:
    """Answers from which of some nodes others can be reached.

    Args:
      view: The graph, with or without loops.
      marked: The nodes that are asked about.

    Raises:
      ValueError: The graph has a cycle that is no loop.

    Example:
      >>> writes = Precedence(view, ["AssignAdd", "Assign"])
      >>> writes.before("cond/truediv", ["Assign", "AssignAdd"])
      ['AssignAdd']
    """

    def __init__(self, view: GraphView, marked: Iterable[str]) -> None:
        self._bits = {name: 1 << number for number, name in enumerate(dict.fromkeys(marked))}
        self._before = dict(self._bits)
        view.spread(self._before)
        while self._went_back(view):
            view.spread(self._before)

    def before(self, node: str, marked: Iterable[str]) -> List[str]:
        """Those of `marked` from which a node can be reached; each reaches itself."""
        found = self._before.get(node, 0)
        return [name for name in marked if self._bits[name] & found]

    def _went_back(self, view: GraphView) -> bool:
        """Passes what is known on to where loops begin; whether that was news to any of them."""
        is_news = False
        for source in view.of_op(*BACK_EDGE_SOURCES):
            for start in view.readers(source):
                known = self._before.get(start, 0)
                found = known | self._before.get(source, 0)
                is_news = is_news or found != known
                self._before[start] = found
        return is_news
