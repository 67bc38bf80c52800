"""When, and in which branch, a region of row-wise tensors uses one of its sources.

A read of a reference variable returns the variable's own memory: whoever uses it gets what is there
by then. So what a script has made a use wait for, a search for rows that are not 0 must wait for.
"""

from __future__ import annotations

from typing import Container, List, Optional, Tuple

from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.precedence import Precedence
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.rules.optimizers.table_writers import writers_of

# Their results may be the memory of what they are given.
_SAME_MEMORY = SWITCHES | {
    *("Identity", "StopGradient", "PreventGradient", "CheckNumerics", "Snapshot", "ExpandDims")
}


class SourceUses:
    """The uses of one source.

    Args:
      view: The graph.
      source: The node.
      result: What the region computes.
      nodes: What computes it.
      totals: Edges to reductions of what these compute.
    """

    def __init__(
        self,
        view: GraphView,
        source: str,
        result: TensorRef,
        nodes: Container[str],
        totals: Container[Use],
    ) -> None:
        self._view = view
        self._source = source
        self._result = result
        self._nodes = nodes
        self._totals = totals

    def written_before(self, variable: str, order: Precedence) -> Optional[Tuple[str, ...]]:
        """What writes to a reference variable, of which the source is a read, before it is used.

        Args:
          variable: The variable.
          order: Tells which writers of variables come before a node.

        Returns:
          The nodes; None if that differs from use to use, or depends on a branch.
        """
        writers = list(writers_of(self._view, variable))
        sometimes = [one.node for one in writers if one.branches or one.loop]
        always = [one.node for one in writers if one.node not in sometimes]
        found: Optional[List[str]] = None
        for user in self._users_of_value():
            written = [name for name in order.before(user, always) if name != user]
            if (found is not None and written != found) or order.before(user, sometimes):
                return None
            found = written
        return tuple(found or ())

    def in_branch(self) -> TensorRef:
        """The source's value where it enters the one branch that uses it, or else the value."""
        value = TensorRef(self._source, 0)
        users = {use.consumer for _, use in self._uses_of(self._source)}
        if len(users) != 1:
            return value
        switch = users.pop()
        if self._view.op(switch) not in SWITCHES:
            return value
        taken = {tensor for tensor, _ in self._uses_of(switch)}
        return taken.pop() if len(taken) == 1 else value

    def _users_of_value(self) -> List[str]:
        """The nodes that compute with the source's value."""
        found, waiting = [], [self._source]
        while waiting:
            for _, use in self._uses_of(waiting.pop()):
                if use.consumer in self._nodes and self._view.op(use.consumer) in _SAME_MEMORY:
                    waiting.append(use.consumer)
                else:
                    found.append(use.consumer)
        return found

    def _uses_of(self, name: str) -> List[Tuple[TensorRef, Use]]:
        """What uses a node's outputs for the region's result or totals."""
        return [
            (tensor, use)
            for tensor, use in self._view.node_uses(name)
            if use.consumer in self._nodes or use in self._totals or tensor == self._result
        ]
