"""Gives messages in functions names that do not depend on what a step fetches.

    While(body: HorovodAllreduce)    inlined: loop/body/_12/HorovodAllreduce
                                     called:  HorovodAllreduce

Ranks meet under the names of collectives. TensorFlow inlines the functions of loops and
conditionals, and numbers their nodes anew for each set of fetches. In a function that is called,
nodes keep their names. All of it then runs on one device, whose kernels may not have collectives if
it is a GPU.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterable, List

from graph_opt.compat.stateful_ops import SINGLE_CALLS, called_functions
from graph_opt.graph.called_bodies import CONDITIONALS, LOOPS
from graph_opt.graph.edits import Edits
from graph_opt.graph.view import GraphView
from graph_opt.graph.walks import reach
from graph_opt.passes.pass_state import PassState
from graph_opt.passes.tasks import runs_on_cpu
from graph_opt.reporting.tables import counted, first_of
from graph_opt.rules.op_names import is_collective

_BRANCHING = LOOPS | CONDITIONALS
_IS_INLINED = "_lower_using_switch_merge"
_CHANGE = (
    "{} with messages to other ranks called instead of inlined: they meet whatever each of them "
    "fetches"
)
_LEFT = (
    "ranks that fetch different things would wait for each other forever at messages in {}: give "
    "them a name of their own by name= and ignore_name_scope=True"
)


def call_functions(state: PassState) -> PassState:
    """Has loops and conditionals call the functions that have collectives.

    Returns:
      The same state if there are none.
    """
    if not state.view.functions:
        return state
    calls = _Calls(state.view)
    if calls.edits:
        change = _CHANGE.format(counted(calls.number, "function call"))
        state = state.rewritten(calls.edits.rewrite()).reporting(change)
    if calls.left:
        left = _LEFT.format(first_of(calls.left, 1))
        state = state.reporting(left_alone=(*state.report.left_alone, left))
    return state


class _Calls:
    """The nodes of a graph that call functions with collectives.

    Attributes:
      edits: Those that make TensorFlow call them.
      number: How many these are.
      left: Nodes whose functions stay inlined.
    """

    def __init__(self, view: GraphView) -> None:
        self._functions = view.functions
        self.edits, self.number = Edits(view), 0
        self.left = [
            name
            for name in view.of_op(*sorted(SINGLE_CALLS - _BRANCHING))
            if any(self._names(inner) for inner in self._inside(view.nodes[name]))
        ]
        names = {name: self._names(view.nodes[name]) for name in view.of_op(*sorted(_BRANCHING))}
        times = Counter(view.of_op(*filter(is_collective, view.ops())))
        times.update(message for messages in names.values() for message in messages)
        for name, messages in names.items():
            if not messages:
                continue
            if runs_on_cpu(view.device(name)) and all(times[each] == 1 for each in messages):
                self.edits.set(name, _IS_INLINED, False)
                self.number += 1
            else:
                self.left.append(name)

    def _names(self, node: Any) -> List[str]:
        """The names of messages in functions that a node has inlined."""
        if node.op not in _BRANCHING or not _has(node, _IS_INLINED, True):
            return []
        inside = self._inside(node)
        return [one.name for one in inside if _has(one, "ignore_name_scope", False)]

    def _inside(self, node: Any) -> List[Any]:
        """The nodes of the functions that a node calls, itself or by others."""
        called = reach(self._called([node]), self._called_by)
        return [inner for name in called for inner in self._functions[name].node_def]

    def _called_by(self, function: str) -> List[str]:
        return self._called(self._functions[function].node_def)

    def _called(self, nodes: Iterable[Any]) -> List[str]:
        return [name for name in called_functions(nodes) if name in self._functions]


def _has(node: Any, key: str, value: bool) -> bool:
    return key in node.attr and bool(node.attr[key].b) == value
