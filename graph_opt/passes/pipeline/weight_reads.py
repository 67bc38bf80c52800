"""Writes the reads of the tensors that a stage gives main: at first, and behind updates.

    first    variables as they are: the user's own reads               for the first step
    second   the same, but numbers of steps are one update further     for the second step
    pull     read behind the updates on the same server, likewise      for each later step

Weights that miss an update come with the number of steps that TensorFlow would have: what the
update will add to it is known.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Set

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_value, value_dtype
from graph_opt.graph.view import GraphView, TensorRef, shape_proto
from graph_opt.passes.node_writer import NodeWriter
from graph_opt.passes.pipeline.copied_node import copied_node
from graph_opt.passes.pipeline.counters import Counter
from graph_opt.passes.pipeline.pushed_updates import PushedUpdates
from graph_opt.passes.pipeline.training_step import READS, RESOURCE
from graph_opt.rules.op_names import VARIABLES

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
            if view.op(name) in READS and above[0] in self._same:
                self._same[name] = self._same[above[0]]
            elif any(each in self._same or each in self._depending for each in above):
                self._depending.add(name)

    def signature(self) -> Dict[str, Any]:
        """Dtypes and shapes of what is read, as attributes."""
        view, pulled = self._view, self._pushed.pulled
        dtypes = [value_dtype(view.dtype(tensor) or 0) for tensor in pulled]
        dtypes += [self._dtype(name) for name in self._counters]
        shapes = [shape_proto(view.shape(tensor)) for tensor in pulled]
        shapes += [view.nodes[name].attr["shape"].shape for name in self._counters]
        return {
            "dtypes": tf.AttrValue(list=tf.AttrValue.ListValue(type=dtypes)),
            "shapes": tf.AttrValue(list=tf.AttrValue.ListValue(shape=shapes)),
        }

    def first(self) -> List[str]:
        """Reads variables as they are; the names of the tensors."""
        values = {name: self._counter_value(_FIRST, name) for name in self._counters}
        return [self._value(_FIRST, tensor) for tensor in self._pushed.pulled] + [*values.values()]

    def second(self, first: Sequence[str]) -> List[str]:
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

    def behind_updates(self, missed: int) -> List[str]:
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

    def _copies(self, scope: str, steps: Dict[str, str], wanted: Any) -> Dict[str, str]:
        """By node, what stands for it: copies, and numbers of steps."""
        view = self._view
        found = {
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

    @staticmethod
    def _input(copies: Dict[str, str], tensor: TensorRef) -> str:
        if tensor.node not in copies:
            return tensor.input_name
        return TensorRef(copies[tensor.node], tensor.index).input_name

    def _counted(self, scope: str, variable: str, value: str) -> str:
        """A number of steps, one update further."""
        increment = self._increment(scope, variable, self._view.device(variable))
        return self._sum("{}/{}/steps".format(scope, variable), variable, value, increment)

    def counted_by_main(self, variable: str, taken: str, waits: Sequence[str]) -> str:
        """Writes what main gives for a number of steps after its update; the tensor's name.

        Args:
          variable: The number's variable.
          taken: What main takes from the stage.
          waits: The nodes for which it waits.
        """
        increment = self._increment("after", variable, self._writer.device)
        name = "after/{}/steps".format(variable)
        return self._sum(name, variable, taken, increment, waits, self._writer.device)

    def _increment(self, scope: str, variable: str, device: str) -> str:
        name = "{}/{}/increment".format(scope, variable)
        return self._writer.constant(name, self._counters[variable].increment, device)

    def _sum(
        self,
        name: str,
        variable: str,
        value: str,
        increment: str,
        waits: Sequence[str] = (),
        device: str = "",
    ) -> str:
        node = self._writer.node(
            name,
            "AddV2",
            [value, increment, *("^" + each for each in waits)],
            device or self._view.device(variable),
            T=tf.AttrValue(type=self._dtype(variable)),
        )
        return str(node.name)

    def _counter_value(self, scope: str, variable: str, waits: Sequence[str] = ()) -> str:
        dtype = tf.AttrValue(type=self._dtype(variable))
        is_handle = self._view.op(variable) == _HANDLE
        node = self._writer.node(
            "{}/{}/value".format(scope, variable),
            "ReadVariableOp" if is_handle else "Identity",
            [variable, *("^" + each for each in waits)],
            self._view.device(variable),
            **({"dtype": dtype} if is_handle else {"T": dtype}),
        )
        return str(node.name)

    def _dtype(self, variable: str) -> int:
        return int(self._view.nodes[variable].attr["dtype"].type)

    def _value(self, scope: str, tensor: TensorRef, waits: Sequence[str] = ()) -> str:
        """A tensor, or the value of a reference, read on its server."""
        number = self._view.dtype(tensor) or 0
        if is_value(number):
            return tensor.input_name
        if tensor.node in self._counters:
            return self._writer.name("{}/{}/value".format(scope, tensor.node))
        node = self._writer.node(
            "{}/{}/value".format(scope, tensor.node),
            "Identity",
            [tensor.input_name, *("^" + each for each in waits)],
            self._view.device(tensor.node),
            T=tf.AttrValue(type=value_dtype(number)),
        )
        return str(node.name)

    def _updates_beside(self, name: str) -> List[str]:
        """The stage's updates on the same server."""
        tasks = self._pushed.tasks
        return [
            self._writer.name(update)
            for update in self._pushed.updates
            if tasks[update] == tasks[name]
        ]
