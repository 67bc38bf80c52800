"""What crosses between tasks in a run, and the calls that it takes.

TensorFlow sends each tensor once to each task that reads it, by a call of its own; so it does for
control edges, without a tensor. A run is started, and ended, by one call to each other task.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, List, Mapping, NamedTuple, Optional, Tuple

from graph_opt.compat.stateful_ops import PLACEHOLDERS
from graph_opt.cost.folded import origin
from graph_opt.cost.step_runs import Run
from graph_opt.graph.view import GraphView, TensorRef
from graph_opt.passes.io_stages import BATCH_SOURCES
from graph_opt.passes.tasks import job_of, on_cpu
from graph_opt.passes.transfers.task_borders import TaskBorders
from graph_opt.rules.op_names import VARIABLES

CALLS_OF_A_RUN = 2
"""RunGraph, and CleanupGraph after it."""

# Beside tensors: names of devices and tensors in the request, headers of HTTP/2 both ways. Measured
# with TensorFlow 2.15 by a proxy that counts (tools/bench/training/traffic.py).
BYTES_OF_A_CALL = 300.0

_DEFAULT_TASK = "/job:localhost/task:0/device:CPU:0"


class Crossing(NamedTuple):
    """A tensor that one task sends to another.

    Attributes:
      tensor: The tensor; None for a control edge.
      node: The node that it comes from.
      source: Task that sends.
      target: Task that receives.
    """

    tensor: Optional[TensorRef]
    node: str
    source: str
    target: str


class Tasks:
    """The task of each node.

    Attributes:
      own: The task of nodes without one, which is the session's.
      of: Each node's task, as the device string of its CPU.
    """

    def __init__(self, view: GraphView) -> None:
        borders = TaskBorders(view)
        named = {name: task or on_cpu(view.device(name)) for name, task in borders.of.items()}
        self.own = _own_task(view, named)
        own_job = job_of(self.own)
        self.of: Dict[str, str] = {
            name: task or _first_task(view.device(name), own_job) or self.own
            for name, task in named.items()
        }


def _own_task(view: GraphView, named: Mapping[str, Optional[str]]) -> str:
    """That of the input; of a job without a task, as `replica_device_setter` gives, its first."""
    for name in (*view.of_op(*BATCH_SOURCES), *view.of_op(*PLACEHOLDERS)):
        task = named[name] or _first_task(view.device(name), None)
        if task is not None:
            return task
    others = {named[name] for name in view.of_op(*sorted(VARIABLES))}
    for name, task in named.items():
        task = task or _first_task(view.device(name), None)
        if task is not None and task not in others:
            return task
    return _DEFAULT_TASK


def _first_task(device: str, own_job: Optional[str]) -> Optional[str]:
    """The first task of a job that a device names without one; None for the session's own job."""
    job = job_of(device)
    if job is None or job == own_job:
        return None
    return "/job:{}/task:0/device:CPU:0".format(job)


def crossings(view: GraphView, run: Run, tasks: Tasks, folded: AbstractSet[str]) -> List[Crossing]:
    """What crosses between tasks in a run, each once."""
    found: Dict[Tuple[str, int, str], Crossing] = {}
    for name in run.nodes:
        if name in folded:
            continue
        target = tasks.of[name]
        for given in view.inputs(name):
            if tasks.of[given.node] == target or _is_reference_only(view, given):
                continue
            tensor = origin(view, given)
            if tasks.of[tensor.node] != target:
                crossing = Crossing(tensor, tensor.node, tasks.of[tensor.node], target)
                found.setdefault((tensor.node, tensor.index, target), crossing)
        for control in view.controls(name):
            source = tasks.of[control]
            if source != target and control not in folded:
                found.setdefault((control, -1, target), Crossing(None, control, source, target))
    return list(found.values())


def _is_reference_only(view: GraphView, tensor: TensorRef) -> bool:
    """Whether the tensor is a handle, which is where the variable is."""
    return view.op(tensor.node) == "VarHandleOp"


def runs_on_other_tasks(run: Run, tasks: Tasks, folded: AbstractSet[str]) -> int:
    """On how many tasks beside the session's a run has nodes."""
    used = {tasks.of[name] for name in run.nodes if name not in folded}
    return len(used - {tasks.own})


def longest_wait(
    view: GraphView, run: Run, tasks: Tasks, order: List[str], folded: AbstractSet[str]
) -> int:
    """How many calls follow each other at most, on the way to the end of a run."""
    level: Dict[str, int] = {}
    for name in order:
        if name not in run.nodes:
            continue
        level[name] = max(
            (
                level.get(above, 0) + (tasks.of[above] != tasks.of[name] and above not in folded)
                for above in view.predecessors(name)
                if above in run.nodes
            ),
            default=0,
        )
    return max(level.values(), default=0)
