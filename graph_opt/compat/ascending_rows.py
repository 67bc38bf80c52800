"""Optimizers that take rows which come each once as they are, instead of summing them again.

Before a sparse update, TensorFlow's and Keras' optimizers sum what slices have for the same row.
The slices of sharded tables have their rows in ascending order, each once, and summing takes longer
than the update. The numbers are the same either way. In graphs, the op that makes such rows tells
(`rules/optimizers/update_inputs.py` knows updates without a sum as well).
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List

from tensorflow.python.framework import ops

from graph_opt.compat import tf
from graph_opt.compat.eager import is_eager
from graph_opt.compat.exchange_sums import EXCHANGE_SUMS
from graph_opt.compat.keras_optimizers import legacy
from graph_opt.compat.optimizer_state import KERAS, family_of
from graph_opt.compat.table_training import is_dynamic_table

_APPLY = "_resource_apply_sparse_duplicate_indices"
_BASES = ("Optimizer", "OptimizerV2")
_CHANGED = "_takes_rows_of_ranks"


def take_rows_of_ranks_as_they_are(built: Callable[[str], None]) -> None:
    """Changes all optimizers of `tf.train` and legacy Keras, for graphs; a second call is idle.

    Optimizers that have their own way with repeated rows keep it.

    Args:
      built: Called with the type of each operation that is built to update such rows.
    """
    _change_class(tf.train.Optimizer, built)
    for base in legacy.SGD.__mro__:
        if base.__name__ == "OptimizerV2":
            _change_class(base, built)


def _change_class(base: Any, built: Callable[[str], None]) -> None:
    sum_and_apply = getattr(base, _APPLY)
    if getattr(sum_and_apply, _CHANGED, False):
        return

    @functools.wraps(sum_and_apply)
    def apply(self: Any, gradient: Any, variable: Any, rows: Any, **state: Any) -> Any:
        come_once = not is_eager(rows) and rows.op.type == EXCHANGE_SUMS
        if come_once and not is_dynamic_table(variable):
            update = self._resource_apply_sparse(gradient, variable, rows, **state)
            built(getattr(update, "op", update).type)
            return update
        return sum_and_apply(self, gradient, variable, rows, **state)

    setattr(apply, _CHANGED, True)
    setattr(base, _APPLY, apply)


def take_ascending_rows_as_they_are(optimizer: Any) -> None:
    """Changes one optimizer, for steps outside of graphs: eagerly, and in functions.

    Optimizers that have their own way with repeated rows keep it.
    """
    if family_of(optimizer) == KERAS:
        _change_keras(optimizer)
    elif getattr(type(optimizer), _APPLY).__qualname__.split(".")[0] in _BASES:
        _change_sparse_update(optimizer)


def _change_sparse_update(optimizer: Any) -> None:
    sum_and_apply = getattr(optimizer, _APPLY)

    def apply(gradient: Any, variable: Any, rows: Any, **state: Any) -> Any:
        if is_dynamic_table(variable):  # its update sums
            return sum_and_apply(gradient, variable, rows, **state)
        return _choose(
            rows,
            lambda: optimizer._resource_apply_sparse(gradient, variable, rows, **state),
            lambda: sum_and_apply(gradient, variable, rows, **state),
        )

    setattr(optimizer, _APPLY, apply)


def _change_keras(optimizer: Any) -> None:
    sum_repeated = optimizer._deduplicate_sparse_grad

    def deduplicate(gradients: Any) -> List[Any]:
        return [one if _are_ascending_now(one) else sum_repeated([one])[0] for one in gradients]

    optimizer._deduplicate_sparse_grad = deduplicate


def _are_ascending_now(gradient: Any) -> bool:
    if not isinstance(gradient, tf.IndexedSlices) or not tf.executing_eagerly():
        return False
    return bool(_are_ascending(gradient.indices))


def _choose(rows: Any, direct: Callable[[], Any], summed: Callable[[], Any]) -> Any:
    if tf.executing_eagerly():
        return direct() if bool(_are_ascending(rows)) else summed()
    if not ops.get_default_graph().building_function:
        return summed()
    return tf.cond(_are_ascending(rows), _ended(direct), _ended(summed)).op


def _ended(update: Callable[[], Any]) -> Callable[[], Any]:
    def run() -> Any:
        updated = update()
        with tf.control_dependencies([] if updated is None else [updated]):
            return tf.constant(True)

    return run


def _are_ascending(rows: Any) -> Any:
    return tf.reduce_all(rows[1:] > rows[:-1])
