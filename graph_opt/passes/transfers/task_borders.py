"""Which task runs each node of a graph, and what crosses from one task to another."""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Optional, Tuple

from graph_opt.compat.stateful_ops import FUNCTION_CALLS
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW, MERGES
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.tasks import task_of
from graph_opt.rules.op_names import IDENTITIES

_HANDLE = "VarHandleOp"


class TaskBorders:
    """The task of each node, and how many task borders precede it.

    Attributes:
      of: Each node's task, as the device string of its CPU; None for nodes on a GPU, and for those
        without job and task.
      several: Whether nodes are on different tasks.
      level: How many borders are crossed before a node, at most; empty if there are none. A node
        that depends on one of another task has a higher level than that one.
    """

    def __init__(self, view: GraphView) -> None:
        self._view = view
        self._task_of_device: Dict[str, Optional[str]] = {}
        self.of: Dict[str, Optional[str]] = {
            name: self._task(view.device(name)) for name in view.nodes
        }
        self.several = len(set(self.of.values()) - {None}) > 1
        self.level: Dict[str, int] = {}
        if self.several:
            self._follow_handles()
            self._count_borders()

    def _task(self, device: str) -> Optional[str]:
        if device not in self._task_of_device:
            self._task_of_device[device] = task_of(device)
        return self._task_of_device[device]

    def _follow_handles(self) -> None:
        """What takes a variable's handle runs where the variable is, whatever device it asks for.

        Device setters ask for the worker's; TensorFlow's placer overrules them.
        """
        view = self._view
        for variable in view.of_op(_HANDLE):
            waiting = [variable]
            for name in waiting:
                for _, use in view.node_uses(name):
                    op = view.op(use.consumer)
                    if op in FUNCTION_CALLS:
                        continue
                    self.of[use.consumer] = self.of[variable]
                    if op in IDENTITIES or op in INTO_CONTROL_FLOW or op in MERGES:
                        waiting.append(use.consumer)

    def _count_borders(self) -> None:
        view = self._view
        for name in view.topological_order() or ():
            task = self.of[name]
            levels = [
                self.level[above] + (self.of[above] != task) for above in view.predecessors(name)
            ]
            self.level[name] = max(levels, default=0)

    def crossings(self, skipped: AbstractSet[str]) -> Dict[Tuple[TensorRef, str], List[Use]]:
        """Edges between two known tasks, by tensor and receiving task.

        Args:
          skipped: Nodes whose edges do not count.
        """
        view = self._view
        found: Dict[Tuple[TensorRef, str], List[Use]] = {}
        for name in view.nodes:
            task = self.of[name]
            if task is None or name in skipped:
                continue
            for slot, tensor in enumerate(view.inputs(name)):
                source = self.of[tensor.node]
                if source is None or source == task or tensor.node in skipped:
                    continue
                found.setdefault((tensor, task), []).append(Use(name, slot))
        return found
