"""Finds tensors that cross between tasks together and could be sent as one.

TensorFlow sends each tensor between two tasks in a separate call: a model with 26 tables on one
parameter server makes 78 calls per step for its lookups. Tensors may share a call if

- they go from the same task to the same task, with the same dtype and, except for the first
  dimension, the same shape (ids, gathered rows, gradients of rows);
- none is computed from another: they have crossed the same number of task borders before;
- they are always computed in the same step: they end in the same buffer, or in updates that the
  same node waits for.

Fused lookups do not need this: they cross as one tensor.
"""

from __future__ import annotations

from typing import AbstractSet, Dict, FrozenSet, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.compat.stateful_ops import BRING_ROWS
from graph_opt.graph.control_flow_ops import INTO_CONTROL_FLOW
from graph_opt.graph.view import GraphView, TensorRef, Use
from graph_opt.passes.io_stages import BUFFER_PUT
from graph_opt.passes.transfers.task_borders import TaskBorders

_PACKABLE = frozenset(
    dtype.as_datatype_enum
    for dtype in (tf.int32, tf.int64, tf.float16, tf.bfloat16, tf.float32, tf.float64)
)
# An update is a handful of ops from the border; a longer search has met something else.
_LONGEST_UPDATE = 64

Ends = FrozenSet[str]


class TaskTransfer(NamedTuple):
    """A tensor that is sent from one task to another.

    Attributes:
      tensor: The tensor.
      uses: The edges that read it on the other task.
      row: The dimensions after the first.
    """

    tensor: TensorRef
    uses: Tuple[Use, ...]
    row: Tuple[int, ...]


class TransferKey(NamedTuple):
    """What tensors must have in common to be sent as one.

    Attributes:
      source: Device of the sender, its CPU.
      target: Device of the receiver, its CPU.
      dtype: DataType number.
      row: The dimensions after the first.
      level: Number of task borders crossed before.
      ends: What waits for everything that is computed from the tensor.
    """

    source: str
    target: str
    dtype: int
    row: Tuple[int, ...]
    level: int
    ends: Ends


def task_transfers(
    view: GraphView, left_out: AbstractSet[str]
) -> Dict[TransferKey, List[TaskTransfer]]:
    """The transfers that can be packed, in groups of at least two.

    Args:
      view: The graph.
      left_out: Nodes that do not run any more.
    """
    tasks = TaskBorders(view)
    if not tasks.several:
        return {}
    inside = view.descendants(view.of_op(*INTO_CONTROL_FLOW))
    skipped = frozenset(left_out).union(inside)
    groups: Dict[TransferKey, List[TaskTransfer]] = {}
    for (tensor, task), uses in tasks.crossings(skipped).items():
        found = _describe(view, tasks, tensor, task, uses)
        if found is not None:
            groups.setdefault(found[0], []).append(found[1])
    return {key: group for key, group in groups.items() if len(group) > 1}


def _describe(
    view: GraphView, tasks: TaskBorders, tensor: TensorRef, task: str, uses: List[Use]
) -> Optional[Tuple[TransferKey, TaskTransfer]]:
    dtype = view.dtype(tensor)
    row = _row_of(view, tensor)
    source = tasks.of[tensor.node]
    if dtype is None or dtype not in _PACKABLE or row is None or source is None:
        return None
    ends = _ends(view, [use.consumer for use in uses])
    if ends is None:
        return None
    key = TransferKey(source, task, dtype, row, tasks.level[tensor.node], ends)
    return key, TaskTransfer(tensor, tuple(uses), row)


def _row_of(view: GraphView, tensor: TensorRef) -> Optional[Tuple[int, ...]]:
    """The inner dimensions of a tensor with one row per id of the batch; else None."""
    shape = view.shape(tensor)
    if not shape or shape[0] is not None:
        return None
    row = tuple(length for length in shape[1:] if length is not None)
    return row if len(row) == len(shape) - 1 and 0 not in row else None


def _ends(view: GraphView, consumers: List[str]) -> Optional[Ends]:
    """The buffers, or what waits for the updates, in which all paths from the consumers end."""
    ends = set()
    seen = set(consumers)
    pending = list(consumers)
    while pending:
        name = pending.pop()
        if view.op(name) == BUFFER_PUT:
            ends.add(name)
            continue
        readers = [use.consumer for _, use in view.node_uses(name)]
        if view.op(name) in BRING_ROWS:
            readers = view.control_uses(name)
        if not readers:
            waiting = view.control_uses(name)
            if not waiting:
                return None
            ends.update(waiting)
        fresh = [reader for reader in readers if reader not in seen]
        seen.update(fresh)
        pending.extend(fresh)
        if len(seen) > _LONGEST_UPDATE:
            return None
    return frozenset(ends)
