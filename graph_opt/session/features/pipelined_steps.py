"""What fetches and targets mean in a step that leaves its updates to a stage.

- What ends the step on a server, such as the update of the step counter: the gradients' put, and
  whatever else it waits for.
- The step counter: what TensorFlow would count, which comes with the weights.
- The counter after its update: one more.

A step that trains without counting is refused, because the stage would count it, and so is one that
runs an update that the stage applies as well.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Callable, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.global_step import read_of_global_step
from graph_opt.passes.pipeline.pipelined_names import PipelinedNames
from graph_opt.session.features.feature import Feature

_TWICE = (
    "this step runs '{}', which the stage that applies its gradients does as well: run the train "
    "op without it, or open the session without pipeline_dense"
)
_NOT_COUNTED = (
    "this step trains, but does not change '{}', which the stage that applies its gradients does: "
    "run the train op, or open the session without pipeline_dense"
)
_READS = frozenset(["Identity", "RefIdentity", "ReadVariableOp"])


class PipelinedSteps(Feature):
    """See `Feature`."""

    part_type = PipelinedNames

    def __init__(self, graph: Any, part: PipelinedNames) -> None:
        super().__init__(graph, part)
        self._names = part
        self._push = graph.get_operation_by_name(part.push)

    def in_main(self, name: str) -> Optional[str]:
        """See `Feature`."""
        return self._names.counts.get(name)

    def run_instead(self, operation: Any) -> Sequence[Any]:
        """See `Feature`."""
        ends = self._names.ends.get(operation.name)
        if ends is None:
            return (operation,)
        return [self.graph.get_operation_by_name(name) for name in ends]

    def fetched_in_step(
        self, fetched: List[Any], reached: AbstractSet[Any], given: Callable[[], AbstractSet[Any]]
    ) -> List[Any]:
        """See `Feature`: a step that pushes gradients leaves updates to the stage."""
        if self._push not in reached:
            return fetched
        self._check(given(), reached)
        return [self._while_training(tensor) for tensor in fetched]

    def _while_training(self, tensor: Any) -> Any:
        taken = self._names.counters.get(self._variable_of(tensor))
        return tensor if taken is None else self.graph.get_tensor_by_name(taken)

    def _check(self, given: AbstractSet[Any], reached: AbstractSet[Any]) -> None:
        """Refuses such a step if it applies an update itself, or does not count.

        Raises:
          tf.errors.InvalidArgumentError: The stage would do more than the step asks for.
        """
        names = self._names
        twice = sorted(each.name for each in reached if each.name in names.updates)
        if twice:
            raise tf.errors.InvalidArgumentError(None, None, _TWICE.format(twice[0]))
        if names.counters and not any(each.name in names.counting for each in given):
            raise tf.errors.InvalidArgumentError(
                None, None, _NOT_COUNTED.format(min(names.counters))
            )

    def _variable_of(self, tensor: Any) -> str:
        """The variable whose value this is, as it is before updates."""
        variable = read_of_global_step(self.graph, tensor)
        if variable is not None:
            return str(variable)
        operation = tensor.op
        while operation.type in _READS and not operation.control_inputs:
            operation = operation.inputs[0].op
        return str(operation.name)
