"""Gradients of all ranks, as one."""

from __future__ import annotations

from typing import Any, Collection, List, Set

from graph_opt.compat import tf
from graph_opt.sharding.divided_gradients import divided_by
from graph_opt.sharding.transport import AVERAGE, Transport

_REDUCTIONS = (
    *("HorovodAllreduce", "HorovodGroupedAllreduce"),
    *("HorovodAllgather", "HorovodGroupedAllgather"),
    *("ExchangeAllToAll", "HorovodAlltoall"),
)
# What scripts and optimizers do to a gradient that has been reduced: scale, clip, change its form.
_BETWEEN = (
    *("Bitcast", "Cast", "Identity", "IdentityN", "Merge", "Reshape", "StridedSlice", "Switch"),
    *("ClipByValue", "Div", "Maximum", "Minimum", "Mean", "Mul", "RealDiv", "Sum", "Unpack"),
    *("ConcatV2", "Select", "SelectV2"),
)
_CONDITIONALS = ("If", "StatelessIf")


def averaged(gradient: Any, variable: Any, transport: Transport) -> Any:
    """The average of a gradient over all ranks; IndexedSlices get the rows of all ranks.

    Args:
      gradient: A tensor or IndexedSlices.
      variable: What it is the gradient of; messages are named after it.
      transport: How to reach the other ranks.
    """
    base = "average_" + variable.name.split(":")[0].replace("/", "_")
    if not isinstance(gradient, tf.IndexedSlices):
        return transport.all_reduce(gradient, AVERAGE, transport.message_name(base))
    values = transport.all_gather(gradient.values, transport.message_name(base + "_values"))
    indices = transport.all_gather(gradient.indices, transport.message_name(base + "_rows"))
    return divided_by(tf.IndexedSlices(values, indices, gradient.dense_shape), transport.size)


def is_reduced(gradient: Any, averages: Collection[Any]) -> bool:
    """Whether a gradient comes from a collective, such as one of Horovod's, in a graph.

    Args:
      gradient: A tensor or IndexedSlices.
      averages: Operations whose results are averages over ranks, too.
    """
    waiting: List[Any] = [operation_of(gradient)]
    seen: Set[Any] = set(waiting)
    while waiting:
        operation = waiting.pop()
        if operation in averages or operation.type in _REDUCTIONS or _reduces_in_branch(operation):
            return True
        behind = [tensor.op for tensor in operation.inputs] if operation.type in _BETWEEN else []
        waiting.extend(one for one in behind if one not in seen)
        seen.update(behind)
    return False


def operation_of(gradient: Any) -> Any:
    """The operation that computes a gradient, or the values of one."""
    return (gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient).op


def _reduces_in_branch(operation: Any) -> bool:
    if operation.type not in _CONDITIONALS:
        return False
    names = {operation.get_attr(name).name for name in ("then_branch", "else_branch")}
    functions = operation.graph.as_graph_def().library.function
    return any(
        node.op in _REDUCTIONS
        for function in functions
        if function.signature.name in names
        for node in function.node_def
    )
