"""Finds collectives of a script that add up gradients of sharded tables, which are sums already."""

from __future__ import annotations

from typing import Any, List, Optional, Set

from graph_opt.compat import tf
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS

_REDUCTIONS = (
    *("HorovodAllgather", "HorovodGroupedAllgather"),
    *("HorovodAllreduce", "HorovodGroupedAllreduce"),
)
# What may be between a gradient and the collective that gets it: scales, sums, changes of form.
_BETWEEN = (
    *("Bitcast", "Cast", "ConcatV2", "Identity", "IdentityN", "Reshape", "StridedSlice", "Switch"),
    *("AddN", "AddV2", "Div", "Mul", "RealDiv", "UnsortedSegmentSum"),
)
_FAULT = (
    "'{}' sends other ranks the gradients of {}, but these are sums over all ranks of this rank's "
    "rows: leave sharded tables out (sok.filter_variables), or let hvd.DistributedOptimizer or "
    "hvd.DistributedGradientTape, made after sok.init(), choose what to send"
)


def reduction_fault(collective: Any) -> Optional[str]:
    """What is wrong with a collective that gets gradients of a table; None for others."""
    if collective.type not in _REDUCTIONS:
        return None
    waiting: List[Any] = [tensor.op for tensor in collective.inputs]
    seen: Set[Any] = set(waiting)
    while waiting:
        operation = waiting.pop()
        tables = _tables_of(operation)
        if tables is not None:
            return _FAULT.format(collective.name, tables)
        behind = [tensor.op for tensor in operation.inputs] if operation.type in _BETWEEN else []
        waiting.extend(one for one in behind if one not in seen)
        seen.update(behind)
    return None


def _tables_of(operation: Any) -> Optional[str]:
    """The tables of which an operation gives gradients."""
    if operation.type == EXCHANGE_SUMS:
        names = [tf.compat.as_str(name) for name in operation.get_attr("table_names")]
        return "table {}".format(", ".join("'{}'".format(name) for name in names))
    return None
