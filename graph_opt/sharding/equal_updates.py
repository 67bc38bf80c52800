"""Finds out whether our updates give the bits of TensorFlow's on this machine.

Both follow the same formula, but TensorFlow's kernels estimate some roots by an instruction of the
CPU and round them in an order that depends on how they were compiled. So both update a few rows,
once in a process for each kind of update that a script builds.
"""

from __future__ import annotations

import functools
import inspect
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.unwatched_sessions import unwatched_sessions
from graph_opt.ops.group_embedding import GroupAttributes, GroupIds, group_embedding_apply
from graph_opt.ops.merged_updates import merge_updates
from graph_opt.ops.optimizers import OptimizerSpec, StockOp, optimizer_specs

_RESOURCE = "Resource"
_ROWS = 40
# One column, for which kernels have loops of their own; and more than any vector has, which leave
# some over.
_WIDTHS = (1, 29)
# Of these, formulas leave out terms where they are 0.
_OPTIONAL = frozenset(["l1", "l2", "l2_shrinkage", "momentum"])
# Usual values are powers of two, products with which need no rounding.
_UNEVEN = 0.83
_KEPT = frozenset(["learning_rate_power"])
_lock = threading.Lock()


class _Case(NamedTuple):
    """One update, by both."""

    spec: OptimizerSpec
    stock: StockOp
    flags: Tuple[str, ...]
    values: Dict[str, float]
    width: int


def note_update(op_type: str) -> None:
    """Lets sessions merge updates of this kind with others if that makes no difference.

    Args:
      op_type: Type of an operation of a graph; those that update no rows are ignored.
    """
    stock_op = op_type[len(_RESOURCE) :] if op_type.startswith(_RESOURCE) else op_type
    if stock_op in _stock_ops():
        with _lock:
            _note(stock_op)


@functools.lru_cache(maxsize=None)
def _note(stock_op: str) -> None:
    merge_updates(stock_op, has_equal_bits(stock_op))


def has_equal_bits(stock_op: str) -> bool:
    """Whether our update of rows gives the bits of this op of TensorFlow's.

    Args:
      stock_op: Its type, without "Resource": one of those in `optimizer_specs` that take rows.

    Example:
      >>> has_equal_bits("SparseApplyMomentum")
      True
    """
    spec, stock = _stock_ops()[stock_op]
    cases = [
        _Case(spec, stock, flags, values, width)
        for flags in _flags(spec)
        for values in _values(spec, stock)
        for width in _WIDTHS
    ]
    with tf.Graph().as_default(), unwatched_sessions() as session_class:
        starts: List[Any] = []
        pairs = [_both(case, number, starts) for number, case in enumerate(cases)]
        results = [tensor for pair in pairs for tensor in pair]
        # Of GPUs, a script's own session must be the first to take memory.
        config = tf.ConfigProto(device_count={"GPU": 0}, inter_op_parallelism_threads=1)
        with session_class(config=config) as session:
            session.run(starts)
            found = session.run(results)
    return all(stock.tobytes() == ours.tobytes() for stock, ours in zip(found[::2], found[1::2]))


@functools.lru_cache(maxsize=None)
def _stock_ops() -> Dict[str, Tuple[OptimizerSpec, StockOp]]:
    return {
        stock.op: (spec, stock)
        for spec in optimizer_specs().values()
        for stock in spec.stock_ops
        if "rows" in stock.inputs and not spec.moves_every_row
    }


def _flags(spec: OptimizerSpec) -> List[Tuple[str, ...]]:
    """The defaults, and those with each flag the other way."""
    default = {name for name, is_set in spec.flags.items() if is_set}
    return [tuple(sorted(default ^ {changed})) for changed in spec.flags] + [tuple(sorted(default))]


def _values(spec: OptimizerSpec, stock: StockOp) -> Iterator[Dict[str, float]]:
    taken = {
        name: value if name in _KEPT else value * _UNEVEN
        for name, value in spec.hyperparameters.items()
        if name in stock.inputs
    }
    yield taken
    if not _OPTIONAL.isdisjoint(taken):
        yield {name: 0.0 if name in _OPTIONAL else value for name, value in taken.items()}


def _both(case: _Case, number: int, starts: List[Any]) -> Iterator[Any]:
    """The table after TensorFlow's update and after ours, and so each slot."""
    random = np.random.RandomState(number)
    shape = (_ROWS, case.width)
    gradient = tf.constant(random.normal(size=shape).astype(np.float32))
    # Slots that may be averages of squares are positive.
    first = [random.normal(size=shape), *(random.gamma(1.0, size=shape) for _ in case.spec.slots)]
    theirs, ours = ([_variable(shape, value, starts) for value in first] for _ in range(2))
    updates = _stock_update(case, theirs, gradient), _own_update(case, ours, gradient)
    for pair in zip(theirs, ours):
        for handle, update in zip(pair, updates):
            with tf.control_dependencies([update]):
                yield tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)


def _variable(shape: Tuple[int, int], value: np.ndarray, starts: List[Any]) -> Any:
    handle = tf.raw_ops.VarHandleOp(
        dtype=tf.float32, shape=shape, shared_name="equal_updates_{}".format(len(starts))
    )
    first = tf.constant(value.astype(np.float32))
    starts.append(tf.raw_ops.AssignVariableOp(resource=handle, value=first))
    return handle


def _stock_update(case: _Case, variables: Sequence[Any], gradient: Any) -> Any:
    op = getattr(tf.raw_ops, _RESOURCE + case.stock.op)
    given = {
        **dict(zip(("table", *case.spec.slots), variables)),
        **{name: tf.constant(value, tf.float32) for name, value in case.values.items()},
        "gradient": gradient,
        "rows": tf.range(_ROWS),
    }
    names = [name for name in inspect.signature(op).parameters if name != "name"]
    arguments = {name: given[drawn] for name, drawn in zip(names, case.stock.inputs)}
    arguments.update({flag: flag in case.flags for flag in case.spec.flags if flag in names})
    return op(**arguments)


def _own_update(case: _Case, variables: Sequence[Any], gradient: Any) -> Any:
    none = tf.zeros([0], tf.int64)
    ids = GroupIds([tf.range(_ROWS, dtype=tf.int64)], [none], [none], [])
    attributes = GroupAttributes([0], [1], ["t"], ["sum"], ["dense"], [False], [-1])
    values = [case.values.get(name, 0.0) for name in case.spec.hyperparameters]
    return group_embedding_apply(
        case.spec.name,
        variables[:1],
        variables[1:],
        [tf.constant(value, tf.float32) for value in values],
        ids,
        attributes,
        [gradient],
        flags=case.flags,
    )
