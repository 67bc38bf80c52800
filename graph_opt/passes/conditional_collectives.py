"""Folds the conditionals that `hvd.DistributedOptimizer` puts around its collectives.

    Switch(gradient, several) -> HorovodAllgather -> Merge         tf.cond without functions
    If(several, gradient) with HorovodAllgather in its branch      with functions

Unless Horovod is elastic, `several` is a constant: there are several ranks.

Ranks meet under the names of collectives. TensorFlow names the nodes of functions anew for each set
of fetches (`cond/then/_12/HorovodAllreduce`), so that ranks that fetch different things, such as
summaries on rank 0 alone, would wait for each other forever. Taken out of functions, collectives
have names of their own.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Set, Tuple

from graph_opt.compat.function_bodies import function_body
from graph_opt.graph.control_flow_ops import SWITCHES
from graph_opt.graph.edits import Edits
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.dead_nodes import dead_nodes
from graph_opt.passes.node_writer import free_scope
from graph_opt.passes.pass_state import PassState
from graph_opt.reporting.tables import counted
from graph_opt.rules.gradients.allgather import GATHERS
from graph_opt.rules.op_names import is_collective

_SCOPE = "several_ranks"
_IFS = ("If", "StatelessIf")
_CHANGE = "{} around messages to other ranks folded: they meet whatever each of them fetches"
# Scales, casts and identities between a collective and the end of its branch.
_LONGEST_BRANCH = 6


def fold_functions(state: PassState) -> PassState:
    """Takes all collectives out of functions that are called in each step.

    Returns:
      The same state if there are none.
    """
    fold = _Fold(state.view)
    fold.functions()
    return fold.folded(state, _CHANGE.format(counted(len(fold.replaced), "conditional")))


def fold_conditionals(state: PassState) -> PassState:
    """Takes collectives of sparse gradients out of conditionals whose condition is constantly True.

    Returns:
      The same state if there are none.
    """
    fold = _Fold(state.view)
    for name in state.view.of_op(*GATHERS):
        fold.gather(name)
    fold.functions()
    return fold.folded(state)


class _Fold:
    """What is taken out of the conditionals of a graph."""

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._scope = free_scope(view, _SCOPE)
        self._nodes: List[Any] = []
        self._edits = Edits(view)
        self.replaced: Set[str] = set()

    def folded(self, state: PassState, *changes: str) -> PassState:
        """The state without what was taken out, and with these lines for its report.

        Returns:
          The same state if nothing was.
        """
        if not self.replaced:
            return state
        self._edits.apply_to_new(self._nodes)
        rewritten = state.rewritten(self._edits.rewrite(self._nodes)).reporting(*changes)
        return rewritten.without(dead_nodes(rewritten.view, self.replaced))

    def gather(self, name: str) -> None:
        """Takes a collective out of its Switches and Merges."""
        sent = self._view.inputs(name)
        if not sent or not all(self._is_taken(tensor) for tensor in sent):
            return
        for slot, tensor in enumerate(sent):
            self._edits.move_input(name, slot, self._view.inputs(tensor.node)[0].input_name)
            self.replaced.add(tensor.node)
        for result, taken in self._ends(name):
            self._redirect(result, taken)

    def functions(self) -> None:
        """Takes collectives out of the functions that conditionals call."""
        for name in self._view.of_op(*_IFS):
            self._conditional(name)

    def _conditional(self, name: str) -> None:
        """Puts the nodes of a taken branch in the place of its call."""
        view = self._view
        branch = view.attribute(name, "then_branch")
        function = view.functions.get(branch.func.name) if branch is not None else None
        condition, *arguments = view.inputs(name)
        if function is None or not self._is_true(condition):
            return
        if not any(is_collective(node.op) for node in function.node_def):
            return
        scope = "{}/{}".format(self._scope, name)
        body = function_body(function, [tensor.input_name for tensor in arguments], scope)
        if body is None or body.controls:
            return
        for node in body.nodes:
            node.device = node.device or view.device(name)
        self._nodes += body.nodes
        for index, result in enumerate(body.results):
            self._redirect(TensorRef(name, index), TensorRef.parse(result))

    def _is_taken(self, tensor: TensorRef) -> bool:
        view = self._view
        if view.op(tensor.node) not in SWITCHES or tensor.index != 1:
            return False
        return self._is_true(view.inputs(tensor.node)[1])

    def _is_true(self, condition: TensorRef) -> bool:
        value = self._view.constant(condition)
        return value is not None and value.size == 1 and bool(value.reshape(-1)[0])

    def _ends(self, gather: str) -> Iterator[Tuple[TensorRef, TensorRef]]:
        """(the result of a Merge, what it is if the branch of the collective is taken)."""
        view = self._view
        level = [gather]
        for _ in range(_LONGEST_BRANCH):
            uses = [use for name in level for _, use in view.node_uses(name)]
            for use in uses:
                if view.op(use.consumer) == "Merge":
                    taken = view.inputs(use.consumer)[use.slot]
                    yield TensorRef(use.consumer, 0), taken
            level = [use.consumer for use in uses if view.op(use.consumer) != "Merge"]

    def _redirect(self, tensor: TensorRef, to: TensorRef) -> None:
        self.replaced.add(tensor.node)
        self._edits.replace(tensor, to.input_name)
        self._edits.replace_waits(tensor.node, to.node)
