"""What a step means to the stages that apply gradients and read weights.

- It trains: it takes weights that were read ahead, and leaves its gradients to the stage.
- It needs variables as they are once all gradients are applied: a checkpoint, an evaluation, a
  fetch. The stage is drained first, and what the model takes from it is fed the variables' values.
- It changes such variables: the stage also starts anew afterwards.
"""

from __future__ import annotations

from typing import AbstractSet, Any, Dict, FrozenSet, Iterable, List, NamedTuple, Tuple

from graph_opt.compat import tf
from graph_opt.compat.graph_growth import is_reference
from graph_opt.compat.live_graph import functions_of
from graph_opt.compat.op_definitions import takes_reference
from graph_opt.compat.stateful_ops import FUNCTION_CALLS, VARIABLES, functions_only_read
from graph_opt.compat.variable_ops import KEEPS_ROWS, is_use
from graph_opt.graph.control_flow_ops import MERGES, SWITCHES
from graph_opt.graph.operations import operations_behind
from graph_opt.passes.io_stages import BUFFER_TAKE
from graph_opt.runtime.stages import Stage

_PASS_ON = frozenset(["Identity", "RefIdentity"]) | SWITCHES | MERGES


class PipelineUse(NamedTuple):
    """What a step means to the stages of a graph.

    Attributes:
      trains: Stages to which the step leaves its gradients.
      drains: Stages that must have applied all gradients before.
      resets: Those of them whose variables the step changes.
      reads: Stages whose weights the step needs, without training: what its model takes from the
        stage, and what reads the same from the variables.
    """

    trains: FrozenSet[str] = frozenset()
    drains: FrozenSet[str] = frozenset()
    resets: FrozenSet[str] = frozenset()
    reads: Tuple[Tuple[Any, Any], ...] = ()


class PipelineReach:
    """The stages of a graph that apply gradients, and what steps mean to them.

    Args:
      graph: A `tf.Graph`.
      stages: All of its stages.
    """

    def __init__(self, graph: Any, stages: Iterable[Stage]) -> None:
        self._pipelines: Dict[str, _Found] = {
            stage.name: _found(graph, stage) for stage in stages if stage.pipeline is not None
        }

    def use_of(self, reached: AbstractSet[Any]) -> PipelineUse:
        """What a step means to them.

        Args:
          reached: `operations_behind` the step.
        """
        if not self._pipelines:
            return PipelineUse()
        trains, drains, resets = set(), set(), set()
        reads: List[Tuple[Any, Any]] = []
        for name, found in self._pipelines.items():
            if found.push in reached:
                trains.add(name)
                continue
            takes = [operation for operation in reached if found.is_take(operation)]
            for take in takes:
                reads.extend(zip(take.outputs, found.first.inputs))
            touched = [operation for operation in found.variables if operation in reached]
            if touched or takes:
                drains.add(name)
            if any(_changes(variable, reached) for variable in touched):
                resets.add(name)
        return PipelineUse(frozenset(trains), frozenset(drains), frozenset(resets), tuple(reads))


class _Found(NamedTuple):
    """The operations of one stage."""

    put: Any
    push: Any
    first: Any
    variables: Tuple[Any, ...]

    def is_take(self, operation: Any) -> bool:
        """Whether an operation takes the weights that the stage has read."""
        if operation.type != BUFFER_TAKE:
            return False
        keys = ("container", "shared_name")
        return all(operation.get_attr(key) == self.put.get_attr(key) for key in keys)


def _found(graph: Any, stage: Stage) -> _Found:
    assert stage.pipeline is not None
    put = graph.get_operation_by_name(stage.puts[0].name)
    behind = operations_behind([put])
    return _Found(
        put,
        graph.get_operation_by_name(stage.pipeline.push),
        graph.get_operation_by_name(stage.pipeline.first),
        tuple(operation for operation in behind if operation.type in VARIABLES),
    )


def _changes(variable: Any, reached: AbstractSet[Any]) -> bool:
    """Whether any of these operations may change a variable."""
    handles = {variable.outputs[0].name: variable.outputs[0]}
    waiting = list(handles.values())
    for handle in waiting:
        for reader in handle.consumers():
            if reader not in reached or is_use(reader.type, KEEPS_ROWS):
                continue
            outputs = reader.outputs if reader.type in _PASS_ON else ()
            passed = {each.name: each for each in outputs if is_reference(each)}
            fresh = {name: each for name, each in passed.items() if name not in handles}
            handles.update(fresh)
            waiting.extend(fresh.values())
            if not passed and _may_write(reader, handle):
                return True
    return False


def _may_write(reader: Any, handle: Any) -> bool:
    if handle.dtype.base_dtype != tf.resource:
        return _by_reference(reader, handle)
    if reader.type not in FUNCTION_CALLS:
        return True
    return not functions_only_read(reader.node_def, functions_of(reader.graph))


def _by_reference(reader: Any, handle: Any) -> bool:
    slots = [slot for slot, tensor in enumerate(reader.inputs) if tensor is handle]
    return any(takes_reference(reader.node_def, slot) for slot in slots)
