"""Has the batches of a step take turns, so that one frees its memory before the next needs it.

    take -> batch 0 -> layers -> gradients ------------+
         -> batch 1 -> Identity -> layers -> gradients-+ sum -> update
                          ^ waits for the gradients of batch 0

What runs ahead of the step and lookups that are one op for all batches do not take turns, so what
waits are only the nodes that are still main's own. Nor can anything end a turn that takes gradients
of several batches at once, so that no cycle arises.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Set

from graph_opt.compat.op_definitions import is_value
from graph_opt.config.options import SessionOptions
from graph_opt.graph.edits import Edits
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.rewrite import Rewrite
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.control_flow import depths
from graph_opt.passes.io_stages import BATCH_SOURCES, BUFFER_TAKE, stage_puts
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.pass_state import PassState


def take_turns(state: PassState, options: SessionOptions) -> PassState:
    """Makes each batch wait for the gradients of the one before it."""
    scope, wanted = state.name_map.summed_batches, options.micro_batches
    if not scope or wanted is None:
        return state
    ahead = state.name_map.not_run.union(state.view.ancestors(stage_puts(state.view)))
    return state.rewritten(_Turns(state.view, scope, wanted.number, ahead).rewrite())


class _Turns:
    """One run of the pass.

    Args:
      view: The graph.
      scope: Name scope of the copies.
      number: How many batches a step has.
      ahead: Nodes that main does not run.
    """

    def __init__(self, view: GraphView, scope: str, number: int, ahead: AbstractSet[str]) -> None:
        self._view = view
        self._scope = scope
        self._sources = frozenset(view.of_op(*BATCH_SOURCES, BUFFER_TAKE))
        self._batch = view.descendants(sorted(self._sources))
        self._own: List[Dict[str, None]] = [{} for _ in range(number)]
        for place in range(1, number):
            prefix = "{}/{}/".format(scope, place)
            found = [name for name in view.nodes if name.startswith(prefix)]
            own = [name for name in found if name not in ahead and name not in self._sources]
            self._own[place] = dict.fromkeys(own)
        self._own[0] = dict.fromkeys(self._original(name) for name in self._own[1])
        self._writer = NodeWriter(view, scope, "")
        self._gates: Dict[TensorRef, Tensor] = {}
        self._edits = Edits(view)

    def rewrite(self) -> Rewrite:
        """All nodes and edits."""
        ends = self._ends()
        later: Set[str] = set()
        waits = []
        for place in reversed(range(1, len(self._own))):
            later.update(self._view.descendants(self._own[place]))
            names = [self._named(end, place - 1) for end in ends]
            # Whatever takes gradients of several batches at once cannot end the turn of one.
            waits.append((place, [name for name in names if name not in later]))
        for place, names in reversed(waits):
            if names:
                self._wait(place, names)
        return self._edits.rewrite(self._writer.nodes)

    def _ends(self) -> List[str]:
        """The nodes, by their original names, that return what others read of a batch."""
        view, own = self._view, self._own[1]
        found = [name for name in own if any(reader not in own for reader in view.successors(name))]
        inside = depths(view)
        return [self._original(name) for name in found if not inside[name]]

    def _original(self, name: str) -> str:
        return name.split("/", self._scope.count("/") + 2)[-1]

    def _named(self, original: str, place: int) -> str:
        return original if place == 0 else "{}/{}/{}".format(self._scope, place, original)

    def _wait(self, place: int, names: List[str]) -> None:
        done = self._writer.call("done/{}".format(place - 1), "NoOp", waits_for=names)
        self._gates.clear()
        for name in self._own[place]:
            for slot, tensor in enumerate(self._view.inputs(name)):
                if self._begins(tensor, place):
                    gate = self._gate(tensor, place, done.name)
                    self._edits.move_input(name, slot, gate)

    def _begins(self, tensor: TensorRef, place: int) -> bool:
        """Whether this is something of the batch that its copies read from elsewhere."""
        if tensor.node in self._own[place] or tensor.node not in self._batch:
            return False
        dtype = self._view.dtype(tensor)
        return dtype is not None and is_value(dtype)

    def _gate(self, tensor: TensorRef, place: int, done: str) -> Tensor:
        if tensor not in self._gates:
            gate = self._writer.call(
                "begin/{}/{}/{}".format(place, tensor.node, tensor.index),
                "Identity",
                self._view.device(tensor.node),
                waits_for=[done],
                input=tensor,
            )
            self._gates[tensor] = gate.result
        return self._gates[tensor]
