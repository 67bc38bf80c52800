"""Writes the reads of the tensors that a stage gives main: at first, and behind updates.

    first    variables as they are: the user's own reads               for the first step
    second   the same, but numbers of steps are one update further     for the second step
    pull     read behind the updates on the same server, likewise      for each later step

Weights that miss an update come with the number of steps that TensorFlow would have: what the
update will add to it is known.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set

from graph_opt.compat.op_definitions import is_value
from graph_opt.graph.op_call import Tensor
from graph_opt.graph.view import GraphView, Shape, TensorRef
from graph_opt.passes.node_writer import NodeWriter, tensor_of
from graph_opt.passes.pipeline.copied_node import copied_node
from graph_opt.passes.pipeline.counters import Counter
from graph_opt.passes.pipeline.pushed_updates import PushedUpdates
from graph_opt.passes.pipeline.training_step import RESOURCE
from graph_opt.rules.op_names import VARIABLES, WHOLE_READS

_FIRST, _SECOND, _PULL = "first", "second", "pull"
_HANDLE = "VarHandleOp"


class WeightReads:
    """Writes nodes that read what main takes: the pulled tensors, then the numbers of steps.

    Args:
      view: The graph.
      pushed: What the stage does.
      writer: Gets the nodes.
    """

    def __init__(self, view: GraphView, pushed: PushedUpdates, writer: NodeWriter) -> None:
        self._view = view
        self._pushed = pushed
        self._writer = writer
        self._counters = {each.variable: each for each in pushed.counters}
        # The variables, and what passes them or their values on unchanged.
        self._same: Dict[str, Counter] = dict(self._counters)
        self._depending: Set[str] = set()
        for name in pushed.reads:
            above = [each.node for each in view.inputs(name)]
            if view.op(name) in WHOLE_READS and above[0] in self._same:
                self._same[name] = self._same[above[0]]
            elif any(each in self._same or each in self._depending for each in above):
                self._depending.add(name)

    def shapes(self) -> List[Shape]:
        """Static shapes of what is read."""
        counters: List[Shape] = [each.increment.shape for each in self._pushed.counters]
        return [self._view.shape(tensor) for tensor in self._pushed.pulled] + counters

    def first(self) -> List[Tensor]:
        """Reads variables as they are; the tensors."""
        values = {name: self._counter_value(_FIRST, name) for name in self._counters}
        return [self._value(_FIRST, tensor) for tensor in self._pushed.pulled] + [*values.values()]

    def second(self, first: Sequence[Tensor]) -> List[Tensor]:
        """The same as `first`, but numbers of steps are one update further."""
        numbers = first[len(self._pushed.pulled) :]
        steps = {
            name: self._counted(_SECOND, name, number)
            for name, number in zip(self._counters, numbers)
        }
        copies = self._copies(_SECOND, steps, self._depending)
        pulled = [
            self._input(copies, tensor) if tensor.node in copies else same
            for tensor, same in zip(self._pushed.pulled, first)
        ]
        return pulled + [*steps.values()]

    def behind_updates(self, missed: int) -> List[Tensor]:
        """Reads variables behind the updates.

        Args:
          missed: How many updates these tensors miss when they are used, 0 or 1.
        """
        steps = {}
        for name in self._counters:
            value = self._counter_value(_PULL, name, self._updates_beside(name))
            steps[name] = self._counted(_PULL, name, value) if missed else value
        copies = self._copies(_PULL, steps, self._pushed.reads)
        pulled = [
            self._input(copies, tensor)
            if tensor.node in copies
            else self._value(_PULL, tensor, self._updates_beside(tensor.node))
            for tensor in self._pushed.pulled
        ]
        return pulled + [*steps.values()]

    def _copies(self, scope: str, steps: Dict[str, Tensor], wanted: Any) -> Dict[str, str]:
        """By node, what stands for it: copies, and numbers of steps."""
        view = self._view
        found: Dict[str, str] = {
            name: steps[counter.variable]
            for name, counter in self._same.items()
            if view.dtype(TensorRef(name, 0)) != RESOURCE
        }
        for name in self._pushed.reads:
            if name in found or name not in wanted:
                continue
            inputs = [self._input(found, tensor) for tensor in view.inputs(name)]
            reads = any(view.op(tensor.node) in VARIABLES for tensor in view.inputs(name))
            waits = self._updates_beside(name) if reads and scope == _PULL else []
            found[name] = self._writer.name("{}/{}".format(scope, name))
            self._writer.nodes.append(copied_node(view, name, found[name], inputs, waits))
        return found

    def _input(self, copies: Dict[str, str], tensor: TensorRef) -> Tensor:
        return tensor_of(self._view, tensor, copies.get(tensor.node, ""))

    def _counted(self, scope: str, variable: str, value: Tensor) -> Tensor:
        """A number of steps, one update further."""
        return self._sum(scope, variable, value, self._view.device(variable))

    def counted_by_main(self, variable: str, taken: Tensor, waits: Sequence[str]) -> Tensor:
        """Writes what main gives for a number of steps after its update.

        Args:
          variable: The number's variable.
          taken: What main takes from the stage.
          waits: The nodes for which it waits.
        """
        return self._sum("after", variable, taken, self._writer.device, waits)

    def _sum(
        self, scope: str, variable: str, value: Tensor, device: str, waits: Sequence[str] = ()
    ) -> Tensor:
        name = "{}/{}/".format(scope, variable)
        increment = self._counters[variable].increment
        by = self._writer.constant(name + "increment", increment, device)
        return self._writer.call(name + "steps", "AddV2", device, waits, x=value, y=by).result

    def _counter_value(self, scope: str, variable: str, waits: Sequence[str] = ()) -> Tensor:
        view, name = self._view, "{}/{}/value".format(scope, variable)
        tensor, device = TensorRef(variable, 0), view.device(variable)
        if view.op(variable) != _HANDLE:
            return self._writer.call(name, "Identity", device, waits, input=tensor).result
        dtype = view.nodes[variable].attr["dtype"].type
        return self._writer.call(
            name, "ReadVariableOp", device, waits, resource=tensor, dtype=dtype
        ).result

    def _value(self, scope: str, tensor: TensorRef, waits: Sequence[str] = ()) -> Tensor:
        """A tensor, or the value of a reference, read on its server."""
        view, name = self._view, "{}/{}/value".format(scope, tensor.node)
        read = tensor_of(view, tensor)
        if is_value(view.dtype(tensor) or 0):
            return read
        if tensor.node in self._counters:
            return Tensor(self._writer.name(name), read.dtype)
        return self._writer.call(
            name, "Identity", view.device(tensor.node), waits, input=read
        ).result

    def _updates_beside(self, name: str) -> List[str]:
        """The stage's updates on the same server."""
        tasks = self._pushed.tasks
        return [
            self._writer.name(update)
            for update in self._pushed.updates
            if tasks[update] == tasks[name]
        ]
