"""Finds dense weights and gradients that travel between a worker and a server in the same steps.

Tensors may share a message if they go to the same task with the same dtype, and

- weights: if their reads wait for the same nodes, usually for none, and some training step reads
  them all;
- what updates take, hyperparameters included: if the same training steps end behind them, and none
  is computed from what another one updates.

What a step may skip or repeat travels alone (sometimes_run.py), and so does what it would take
longer to copy than to send.

No message closes a cycle. With `level` the number of task borders before a node, the reads in one
message have the same level. One with gradients has a level, too: one below the lowest of what reads
it. So whatever is joined is at or below its level, and whatever reads it above.
"""

from __future__ import annotations

from typing import (
    AbstractSet,
    Dict,
    FrozenSet,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Tuple,
)

import numpy as np

from graph_opt.compat.op_definitions import dtype_name, dtype_size, is_value, value_dtype
from graph_opt.compat.variable_ops import VariableUse, use_of
from graph_opt.graph.refusal import Refusal
from graph_opt.graph.view import GraphView, Shape, TensorRef, Use
from graph_opt.passes.io_stages import BUFFER_PUT
from graph_opt.passes.tasks import on_cpu
from graph_opt.passes.transfers.sometimes_run import sometimes_run
from graph_opt.passes.transfers.task_borders import TaskBorders
from graph_opt.passes.transfers.training_ends import (
    is_initializer,
    is_update,
    training_ends,
    updates_rows,
)
from graph_opt.reporting.tables import shape_text
from graph_opt.rules.match.table import TableRead, describe, find_read
from graph_opt.rules.op_names import ASSIGNS, VARIABLES

WEIGHTS, GRADIENTS = "weights", "gradients"
# An update is a handful of ops from the border; a longer search has met something else.
_LONGEST_UPDATE = 64


# Sender, receiver, dtype, what the reads wait for, and whether only what follows updates reads.
WeightsKey = Tuple[str, str, int, FrozenSet[str], bool]


class DensePart(NamedTuple):
    """A tensor that becomes part of a message.

    Attributes:
      tensor: What is sent.
      uses: The edges that read it, or another read of the same variable, on the other task.
      shape: Its static shape.
      ends: The ends of training steps that depend on it, as bits.
    """

    tensor: TensorRef
    uses: Tuple[Use, ...]
    shape: Tuple[int, ...]
    ends: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


class DenseTransfer(NamedTuple):
    """Tensors that can be sent as one.

    Attributes:
      kind: `WEIGHTS` or `GRADIENTS`.
      source: Device of the sender, its CPU.
      target: Device of the receiver, its CPU.
      dtype: DataType number.
      parts: At least two.
    """

    kind: str
    source: str
    target: str
    dtype: int
    parts: Tuple[DensePart, ...]


class DenseTransfers(NamedTuple):
    """What can be packed, and why other weights and gradients cannot."""

    transfers: Tuple[DenseTransfer, ...]
    refusals: Tuple[Refusal, ...]


def dense_transfers(
    view: GraphView, not_run: AbstractSet[str], max_bytes: int, apart: bool = False
) -> DenseTransfers:
    """Finds what can be packed; nothing in a graph on a single task.

    Args:
      view: The graph, with static shapes.
      not_run: Nodes that no step of main runs.
      max_bytes: Larger tensors travel alone.
      apart: Whether weights that are only read after updates travel apart from the others.
    """
    borders = TaskBorders(view)
    if not borders.several:
        return DenseTransfers((), ())
    return _Search(view, borders, not_run, max_bytes, apart).found()


class _Search:
    def __init__(
        self,
        view: GraphView,
        borders: TaskBorders,
        not_run: AbstractSet[str],
        max_bytes: int,
        apart: bool,
    ) -> None:
        self._max_bytes = max_bytes
        updates = [name for name in view.nodes if is_update(view, name)] if apart else []
        self._after_updates = view.descendants(updates)
        self._view = view
        self._borders = borders
        self._skipped = frozenset(not_run).union(view.ancestors(view.of_op(BUFFER_PUT)))
        self._sometimes = sometimes_run(view)
        self._ends = training_ends(view)
        initializers = [name for name in view.of_op(*ASSIGNS) if is_initializer(view, name)]
        self._initializing = view.ancestors(initializers)
        self._refusals: Dict[str, Refusal] = {}

    def found(self) -> DenseTransfers:
        weights: Dict[WeightsKey, Dict[str, DensePart]] = {}
        gradients: Dict[Tuple[str, str, int, int, int], List[DensePart]] = {}
        for (tensor, target), uses in self._borders.crossings(self._skipped).items():
            ends = self._ends_of(uses)
            if not ends:
                continue
            source, dtype = self._borders.of[tensor.node], self._view.dtype(tensor)
            if source is None or dtype is None:
                continue
            read = find_read(self._view, tensor)
            if read is not None:
                part = self._weight(tensor, read, uses, ends)
                if part is not None:
                    late = all(use.consumer in self._after_updates for use in uses)
                    key = source, target, value_dtype(dtype), self._waits_of(tensor), late
                    same = weights.setdefault(key, {})
                    same[read.variable] = _joined(same.get(read.variable), part)
            elif self._is_for_update(tensor, target, uses):
                part = self._gradient(tensor, uses, ends)
                level = min(self._borders.level[use.consumer] for use in uses) - 1
                if part is not None:
                    gradients.setdefault((source, target, dtype, ends, level), []).append(part)
        self._refuse_unknown_readers()
        transfers = [
            DenseTransfer(WEIGHTS, *key[:3], parts)
            for key, same in weights.items()
            for parts in _read_together(same.values())
        ]
        self._refuse_lone(weights)
        transfers += [
            DenseTransfer(GRADIENTS, *key[:3], tuple(parts)) for key, parts in gradients.items()
        ]
        several = tuple(each for each in transfers if len(each.parts) > 1)
        return DenseTransfers(several, tuple(self._refusals.values()))

    def _ends_of(self, uses: List[Use]) -> int:
        ends = 0
        for use in uses:
            ends |= self._ends.get(use.consumer, 0)
        return ends

    def _weight(
        self, tensor: TensorRef, read: TableRead, uses: List[Use], ends: int
    ) -> Optional[DensePart]:
        try:
            self._require_unconditional(tensor, read.control_flow)
            self._require_initialized(tensor, uses)
            self._require_value(tensor, uses)
            self._require_known_readers(tensor)
            shape = self._require_size(tensor, self._shape_of_variable(read.variable))
        except Refusal as refusal:
            self._refusals.setdefault(tensor.node, refusal)
            return None
        return DensePart(tensor, tuple(uses), shape, ends)

    def _gradient(self, tensor: TensorRef, uses: List[Use], ends: int) -> Optional[DensePart]:
        try:
            self._require_unconditional(tensor, None)
            shape = self._require_size(tensor, self._shape_of_gradient(tensor, uses))
        except Refusal as refusal:
            if any(is_update(self._view, use.consumer) for use in uses):
                self._refusals.setdefault(tensor.node, refusal)
            return None
        return DensePart(tensor, tuple(uses), shape, ends)

    def _is_for_update(self, tensor: TensorRef, task: str, uses: List[Use]) -> bool:
        """Whether a task takes a tensor for updates: of whole variables, or a hyperparameter."""
        dtype = self._view.dtype(tensor)
        if dtype is None or not is_value(dtype):
            return False
        updates = self._updates_behind(task, uses)
        of_rows = any(updates_rows(self._view, name) for name in updates)
        return bool(updates) and (not of_rows or self._view.shape(tensor) == ())

    def _updates_behind(self, task: str, uses: List[Use]) -> List[str]:
        """The updates on a task that are computed from what these edges carry to it."""
        view = self._view
        waiting = list(dict.fromkeys(use.consumer for use in uses))
        seen = set(waiting)
        updates: List[str] = []
        while waiting:
            name = waiting.pop()
            if is_update(view, name):
                updates.append(name)
                continue
            here = [each for each in view.readers(name) if self._borders.of[each] == task]
            fresh = [each for each in dict.fromkeys(here) if each not in seen]
            seen.update(fresh)
            waiting.extend(fresh)
            if len(seen) > _LONGEST_UPDATE:
                return []
        return updates

    def _require_unconditional(self, tensor: TensorRef, control_flow: Optional[str]) -> None:
        if control_flow is None and tensor.node not in self._sometimes:
            return
        raise Refusal(
            "transfer_in_control_flow",
            at=tensor.node,
            need="a value that each step has, once",
            saw="a {} inside of a tf.cond or tf.while_loop".format(self._view.op(tensor.node)),
        )

    def _require_value(self, tensor: TensorRef, uses: List[Use]) -> None:
        """Requires that a reference, which is read when it is sent, may be read at any time."""
        view = self._view
        number = view.dtype(tensor)
        waiting = [use.consumer for use in uses if view.controls(use.consumer)]
        if waiting and number is not None and not is_value(number):
            raise Refusal(
                "transfer_waits",
                at=tensor.node,
                need="a read on the server",
                saw="a reference that '{}' reads after '{}'".format(
                    waiting[0], view.controls(waiting[0])[0]
                ),
            )

    def _waits_of(self, tensor: TensorRef) -> FrozenSet[str]:
        """What a read waits for."""
        view = self._view
        node, waits = tensor.node, list(view.controls(tensor.node))
        while view.op(node) not in VARIABLES:
            node = view.inputs(node)[0].node
            waits += view.controls(node)
        return frozenset(waits)

    def _refuse_lone(self, weights: Dict[WeightsKey, Dict[str, DensePart]]) -> None:
        """Says of reads that wait for something why no other is sent with them."""
        for (_, _, _, waits, _), same in weights.items():
            if waits and len(same) == 1:
                (part,) = same.values()
                self._refusals[part.tensor.node] = Refusal(
                    "transfer_waits",
                    at=part.tensor.node,
                    need="other reads that wait for the same nodes",
                    saw="a control edge from '{}', which no other has".format(min(waits)),
                )

    def _require_initialized(self, tensor: TensorRef, uses: List[Use]) -> None:
        for use in uses:
            if use.consumer in self._initializing:
                raise Refusal(
                    "transfer_for_initializer",
                    at=tensor.node,
                    need="readers that run once all variables have their initial values",
                    saw="'{}', from which another variable's initial value is computed".format(
                        use.consumer
                    ),
                )

    def _require_known_readers(self, tensor: TensorRef) -> None:
        for use in self._view.uses(tensor):
            if self._is_elsewhere(tensor, use.consumer):
                raise self._unknown_reader(tensor, use.consumer)

    def _is_elsewhere(self, tensor: TensorRef, consumer: str) -> bool:
        """Whether it is unknown to which task a tensor is sent, or it is sent to a GPU there."""
        view, borders = self._view, self._borders
        if borders.of[consumer] is not None or consumer in self._skipped:
            return False
        return on_cpu(view.device(consumer)) != borders.of[tensor.node]

    def _unknown_reader(self, tensor: TensorRef, consumer: str) -> Refusal:
        device = self._view.device(consumer)
        return Refusal(
            "transfer_device_unknown",
            at=tensor.node,
            need="readers on the CPU of a task, such as /job:worker/task:0",
            saw="'{}' on {}".format(consumer, "'{}'".format(device) if device else "no device"),
        )

    def _refuse_unknown_readers(self) -> None:
        """Says of weights why they are left alone where nothing else could."""
        view, borders = self._view, self._borders
        for name in view.nodes:
            if borders.of[name] is not None or not self._ends.get(name):
                continue
            for tensor in view.inputs(name):
                placed = borders.of[tensor.node] is not None
                if placed and self._is_elsewhere(tensor, name) and find_read(view, tensor):
                    self._refusals.setdefault(tensor.node, self._unknown_reader(tensor, name))

    def _shape_of_variable(self, variable: str) -> Shape:
        """Its shape; None if steps may change it."""
        view = self._view
        shape = describe(view, variable).shape
        for _, use in view.node_uses(variable):
            validates = view.attribute(use.consumer, "validate_shape")
            if view.op(use.consumer) == "Assign" and validates is not None and not validates.b:
                return None
        return shape

    def _shape_of_gradient(self, tensor: TensorRef, uses: List[Use]) -> Shape:
        """Its static shape or, if that is unknown, the shape of the variable that it updates."""
        view = self._view
        shape = view.shape(tensor)
        if shape is not None and None not in shape:
            return shape
        for use in uses:
            variable = view.inputs(use.consumer)[0].node
            applies = use_of(view.op(use.consumer)) is VariableUse.TRAINS
            if applies and view.op(variable) in VARIABLES:
                return self._shape_of_variable(variable)
        return shape

    def _require_size(self, tensor: TensorRef, shape: Shape) -> Tuple[int, ...]:
        """The shape, if that and the dtype tell how many bytes there are, and they are not many."""
        number = self._view.dtype(tensor)
        size = None if number is None else dtype_size(number)
        lengths = tuple(each for each in shape or () if each is not None)
        if shape is None or len(lengths) < len(shape) or size is None:
            raise Refusal(
                "transfer_size_unknown",
                at=tensor.node,
                need="a static shape, and numbers of fixed size",
                saw="shape {}, dtype {}".format(
                    shape_text(shape), "unknown" if number is None else dtype_name(number)
                ),
            )
        count = size * int(np.prod(lengths, dtype=np.int64))
        if not 0 < count <= self._max_bytes:
            raise Refusal(
                "transfer_too_large",
                at=tensor.node,
                need="1 to {} bytes".format(self._max_bytes),
                saw="{} bytes".format(count),
            )
        return lengths


def _joined(before: Optional[DensePart], part: DensePart) -> DensePart:
    """One part for two reads of the same variable."""
    if before is None:
        return part
    return before._replace(uses=before.uses + part.uses, ends=before.ends | part.ends)


def _read_together(parts: Iterable[DensePart]) -> Iterator[Tuple[DensePart, ...]]:
    """Divides weights so that those that some training step reads together are together."""
    groups: List[Tuple[int, List[DensePart]]] = []
    for part in parts:
        touching = [group for group in groups if group[0] & part.ends]
        groups = [group for group in groups if not group[0] & part.ends]
        ends, members = part.ends, []
        for mask, others in touching:
            ends |= mask
            members.extend(others)
        groups.append((ends, [*members, part]))
    for _, members in groups:
        yield tuple(members)
