"""What fetches and targets mean in a step that leaves its updates to a stage.

- What ends the step on a server, such as the update of the step counter: the gradients' put, and
  whatever else it waits for.
- The step counter: what TensorFlow would count, which comes with the weights.
- The counter after its update: one more.

A step that trains without counting is refused, because the stage would count it, and so is one that
runs an update that the stage applies as well.
"""

from __future__ import annotations

from typing import AbstractSet, Any, List, Optional

from graph_opt.compat import tf
from graph_opt.compat.global_step import read_of_global_step
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames

_TWICE = (
    "this step runs '{}', which the stage that applies its gradients does as well: run the train "
    "op without it, or open the session without pipeline_dense"
)
_NOT_COUNTED = (
    "this step trains, but does not change '{}', which the stage that applies its gradients does: "
    "run the train op, or open the session without pipeline_dense"
)
_READS = frozenset(["Identity", "RefIdentity", "ReadVariableOp"])


class PipelinedSteps:
    """Translates fetches and targets of one graph.

    Args:
      graph: The optimized graph.
      names: What its names stand for; None if no stage applies updates.
    """

    def __init__(self, graph: Any, names: Optional[PipelinedNames]) -> None:
        self._graph = graph
        self._names = names

    def fetched(self, tensor: Any) -> Any:
        """The tensor to fetch in place of `tensor`."""
        if self._names is None or tensor.name not in self._names.counts:
            return tensor
        return self._graph.get_tensor_by_name(self._names.counts[tensor.name])

    def run(self, operation: Any) -> List[Any]:
        """The operations to run in place of `operation`."""
        if self._names is None or operation.name not in self._names.ends:
            return [operation]
        ends = self._names.ends[operation.name]
        return [self._graph.get_operation_by_name(name) for name in ends]

    def train(self, reached: AbstractSet[Any]) -> bool:
        """Whether a step that runs these operations leaves updates to the stage."""
        return self._names is not None and self._push in reached

    def while_training(self, tensor: Any) -> Any:
        """The tensor to fetch in place of `tensor` in such a step."""
        assert self._names is not None
        taken = self._names.counters.get(self._variable_of(tensor))
        return tensor if taken is None else self._graph.get_tensor_by_name(taken)

    def check(self, given: AbstractSet[Any], reached: AbstractSet[Any]) -> None:
        """Refuses such a step if it applies an update itself, or does not count.

        Args:
          given: All operations behind what the step was asked for.
          reached: All that it runs.

        Raises:
          tf.errors.InvalidArgumentError: The stage would do more than the step asks for.
        """
        names = self._names
        assert names is not None
        twice = sorted(each.name for each in reached if each.name in names.updates)
        if twice:
            raise tf.errors.InvalidArgumentError(None, None, _TWICE.format(twice[0]))
        if names.counters and not any(each.name in names.counting for each in given):
            raise tf.errors.InvalidArgumentError(
                None, None, _NOT_COUNTED.format(min(names.counters))
            )

    @property
    def _push(self) -> Any:
        assert self._names is not None
        return self._graph.get_operation_by_name(self._names.push)

    def _variable_of(self, tensor: Any) -> str:
        """The variable whose value this is, as it is before updates."""
        variable = read_of_global_step(self._graph, tensor)
        if variable is not None:
            return str(variable)
        operation = tensor.op
        while operation.type in _READS and not operation.control_inputs:
            operation = operation.inputs[0].op
        return str(operation.name)
