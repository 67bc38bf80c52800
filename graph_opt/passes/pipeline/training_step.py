"""What a training step does on servers: what it reads, and what it changes there."""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, Iterator, List, Optional, Set, Tuple

from graph_opt.compat import tf
from graph_opt.compat.op_definitions import is_stateful, takes_reference
from graph_opt.compat.stateful_ops import FUNCTION_CALLS, PLACEHOLDERS
from graph_opt.compat.variable_ops import UPDATES, VariableUse, is_use
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView
from graph_opt.passes.io_stages import BUFFER_PUT
from graph_opt.passes.tasks import on_cpu
from graph_opt.passes.transfers.sometimes_run import sometimes_run
from graph_opt.passes.transfers.task_borders import TaskBorders
from graph_opt.passes.transfers.training_ends import is_update, training_ends
from graph_opt.rules.op_names import PASS_ON, VARIABLES, WHOLE_READS

RESOURCE = tf.resource.as_datatype_enum
_TRAINS = (UPDATES - {VariableUse.ADDS}) | {VariableUse.ACCUMULATES}
_NONE: FrozenSet[str] = frozenset()


class TrainingStep:
    """The step that trains variables on servers.

    Args:
      view: The graph.
      borders: The tasks of its nodes, of which there are several.
      not_run: Nodes that no step of main runs.

    Attributes:
      nodes: What main runs in it, each after its inputs; empty if nothing is trained.
      ends: Those that nothing waits for.
      task: The task of each node, its CPU; None if it is unknown.
      worker: The task that computes gradients.
      trained: The updates by gradients.
      updates: All updates on servers.
      written: For each of them, the variables that it changes.
      constant: Nodes that depend on variables and constants alone, and the variables.
      sometimes: Nodes that a step may skip or repeat.

    Raises:
      Refusal: pipeline_several_steps, pipeline_several_workers, pipeline_synchronous.
    """

    def __init__(self, view: GraphView, borders: TaskBorders, not_run: AbstractSet[str]) -> None:
        self._view = view
        self._skipped = frozenset(not_run).union(view.ancestors(view.of_op(BUFFER_PUT)))
        self.task: Dict[str, Optional[str]] = borders.of
        self.worker = ""
        self._ends_of = training_ends(view)
        self.trained, self._mask = self._trained(self._ends_of)
        order = view.topological_order() or ()
        self.nodes = [
            name
            for name in order
            if self._ends_of.get(name, 0) & self._mask and name not in self._skipped
        ]
        self.inside = frozenset(self.nodes)
        self.ends = [
            name
            for name in self.nodes
            if not any(each in self.inside for each in view.successors(name))
        ]
        self.sometimes = sometimes_run(view)
        if self.trained:
            self.worker = self._worker_of(self.trained)
        self.updates = [
            name for name in self.nodes if is_update(view, name) and self.is_on_server(name)
        ]
        self.written = {name: self._written_by(name) for name in self.updates}
        self.constant: Dict[str, FrozenSet[str]] = {}
        self._find_constant()

    def is_on_server(self, name: str) -> bool:
        """Whether another task than the worker runs a node."""
        task = self.task[name]
        return task is not None and task != self.worker

    def _trained(self, ends: Dict[str, int]) -> Tuple[List[str], int]:
        """The updates by gradients on tasks that have variables, and the ends of their steps."""
        view = self._view
        found = [
            name
            for name in view.nodes
            if is_use(view.op(name), _TRAINS)
            and self.task[name] is not None
            and name not in self._skipped
            and ends.get(name)
        ]
        far = [name for name in found if self._comes_from_elsewhere(name)]
        for name in far:
            if "Accumulator" in view.op(name):
                raise Refusal(
                    "pipeline_synchronous",
                    at=name,
                    need="workers that update variables on their own",
                    saw="{}, which collects the gradients of several".format(view.op(name)),
                )
        masks = {ends[name] for name in far}
        if len(masks) > 1:
            one = far[0]
            other = next(name for name in far if ends[name] != ends[one])
            raise Refusal(
                "pipeline_several_steps",
                at=other,
                need="one kind of training step",
                saw="steps that run it without '{}', or the other way round".format(one),
            )
        return far, (masks.pop() if masks else 0)

    def _comes_from_elsewhere(self, name: str) -> bool:
        return any(True for _ in self._crossing_into(name))

    def _crossing_into(self, update: str) -> Iterator[str]:
        """Nodes of other tasks from which an update is computed, the nearest ones."""
        view, task = self._view, self.task[update]
        waiting, seen = [update], {update}
        while waiting:
            for tensor in view.inputs(waiting.pop()):
                source = tensor.node
                if source in seen or view.op(source) in VARIABLES:
                    continue
                seen.add(source)
                if self.task[source] == task:
                    waiting.append(source)
                else:
                    yield source

    def _worker_of(self, trained: List[str]) -> str:
        servers = {self.task[name] for name in trained}
        sources: Set[str] = set()
        for name in trained:
            for source in self._crossing_into(name):
                task = on_cpu(self._view.device(source))
                if task is not None and task not in servers:
                    sources.add(task)
        if len(sources) == 1:
            return next(iter(sources))
        raise Refusal(
            "pipeline_several_workers",
            at=trained[0],
            need="gradients that one task computes, with a job and a task in its device",
            saw=", ".join(sorted(sources)) or "none",
        )

    def _written_by(self, update: str) -> FrozenSet[str]:
        view = self._view
        found = set()
        for slot, tensor in enumerate(view.inputs(update)):
            is_state = view.dtype(tensor) == RESOURCE or takes_reference(view.nodes[update], slot)
            while is_state and view.op(tensor.node) in PASS_ON:
                tensor = view.inputs(tensor.node)[0]
            if is_state and view.op(tensor.node) in VARIABLES:
                found.add(tensor.node)
        return frozenset(found)

    def is_in_each(self, name: str) -> bool:
        """Whether each kind of step that trains runs a node."""
        return self._ends_of.get(name, 0) & self._mask == self._mask

    def counts_steps(self, update: str) -> bool:
        """Whether an update changes a number of steps."""
        dtypes = [self._view.attribute(each, "dtype") for each in self.written[update]]
        return any(each is not None and tf.as_dtype(each.type).is_integer for each in dtypes)

    def _find_constant(self) -> None:
        view = self._view
        for name in self.nodes:
            op = view.op(name)
            if name in self.sometimes or op in PLACEHOLDERS:
                continue
            if op in VARIABLES:
                self.constant[name] = frozenset([name])
                continue
            harmless = op in WHOLE_READS or not (is_stateful(op) or op in FUNCTION_CALLS)
            above = view.predecessors(name)
            if harmless and all(each in self.constant for each in above):
                self.constant[name] = _NONE.union(*(self.constant[each] for each in above))
