"""What a session says of steps under TensorFlow's debugger, tfdbg, if nodes were fused or moved.

The debugger watches the nodes of the script by name. It gets no values of those whose work fused
ops do or stages' threads, and takes a node without values for one that has not run.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, List, Optional

from graph_opt.compat.op_definitions import is_stateful
from graph_opt.compat.sessions import Given
from graph_opt.config.options import SWITCHES
from graph_opt.export.built_edges import BuiltEdges
from graph_opt.graph.operations import Edges, operations_behind
from graph_opt.graph.walks import reach
from graph_opt.reporting.stderr import say_for_all_ranks
from graph_opt.reporting.tables import counted, first_of
from graph_opt.session.graph_records import asked_of
from graph_opt.session.step import Step

_ALL_NODES = "*"
_MOST_NAMED = 3
_NO_VALUES = (
    "tfdbg gets no values of {} of this step ({}): graph_opt has fused them or runs them ahead of "
    "the step, under other names. To see their values, debug without {}"
)


class DebuggedSteps:
    """Says so once, before the first such step.

    Attributes:
      is_next: Whether the next step may be one, and nothing was said yet.
    """

    def __init__(self) -> None:
        self.is_next = False
        self._watched: AbstractSet[str] = frozenset()
        self._said = False

    def note(self, options: Optional[Any]) -> None:
        """Looks at the RunOptions that a script gives the next step; None for none."""
        if options is None or self._said:
            return
        watches = options.debug_options.debug_tensor_watch_opts
        if watches:
            self._watched = frozenset(watch.node_name for watch in watches)
            self.is_next = True

    def before_step(self, graph: Any, step: Step, given: Given) -> None:
        """Says which nodes of a debugged step do not run as the script built them.

        Args:
          graph: The session's graph.
          step: What the session is about to run.
          given: The tensors that the script fetches, the operations that it runs, and the tensors
            that it feeds.
        """
        self.is_next = False
        fetches, targets, feeds = given
        built = BuiltEdges(graph)
        wanted = operations_behind([tensor.op for tensor in fetches] + targets, feeds, built)
        runs = operations_behind([tensor.op for tensor in step.fetches] + step.targets, step.feeds)
        varying = _not_constant(wanted, built)
        missing = [each for each in wanted - runs if each.outputs and each.name in varying]
        names = sorted(each.name for each in missing if self._sees(each))
        asked = asked_of(graph)
        if not names or asked is None:
            return
        self._said = True
        on = [switch for switch, request in zip(SWITCHES, asked.requests) if request is not None]
        shown = first_of(["'{}'".format(name) for name in names], _MOST_NAMED)
        say_for_all_ranks(_NO_VALUES.format(counted(len(names), "node"), shown, " and ".join(on)))

    def _sees(self, operation: Any) -> bool:
        return operation.name in self._watched or _ALL_NODES in self._watched


def _not_constant(operations: AbstractSet[Any], edges: Edges) -> AbstractSet[str]:
    """Names of those that TensorFlow cannot compute before a step, and whose values so matter."""
    readers: Dict[str, List[str]] = {}
    begin = []
    for operation in operations:
        sources = edges.inputs(operation)
        for tensor in sources:
            readers.setdefault(tensor.op.name, []).append(operation.name)
        if is_stateful(operation.type) or not (sources or operation.type == "Const"):
            begin.append(operation.name)
    return reach(begin, lambda name: readers.get(name, [])).keys()
