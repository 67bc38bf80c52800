"""Optimizers of TensorFlow and Keras on dynamic tables: slots beside rows, updates by key."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.compat.keras_table_training import keras_optimizers_train
from graph_opt.compat.resource_variables import beside
from graph_opt.compat.table_training import (
    OfTables,
    is_dynamic_table,
    train_optimizers_train,
)
from graph_opt.compat.train_optimizers import RowOptimizer
from graph_opt.compat.update_rules import update_rule
from graph_opt.ops.dynamic_table import apply_to_keys, set_step


class _Steps(threading.local):
    """What updates of this thread wait for, by name of the table."""

    def __init__(self) -> None:
        self.set: Dict[str, Any] = {}


_steps = _Steps()


def train_dynamic_tables() -> None:
    """From now on all optimizers of the process train dynamic tables."""
    tables = OfTables(is_dynamic_table, _slot_name, _make_slot, _update, _step, _divide)
    train_optimizers_train(tables)
    keras_optimizers_train(tables)


def update_by_key(
    table: Any,
    optimizer: str,
    slots: Sequence[Any],
    hyperparameters: Sequence[Any],
    keys: tf.Tensor,
    gradients: tf.Tensor,
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
    step: Any = None,
) -> Any:
    """Updates the rows of keys, and no others, in the step that was told to the table.

    Args:
      table: A `DynamicTableVariable`.
      optimizer: As all others, see `graph_opt.ops.dynamic_table.apply_to_keys`.
      slots: The table's slots, or their handles.
      hyperparameters: See there.
      keys: See there.
      gradients: See there.
      flags: See there.
      use_locking: See there.
      step: The variable that counts steps, if no `apply_gradients` of `tf.train` is under way; None
        for the graph's.
    """
    with _step([table], step), beside(table):
        # What waits for the step is the update alone: passes take its inputs for those of others.
        values = [tf.cast(value, tf.float32) for value in hyperparameters]
        gradients = tf.cast(gradients, tf.float32)
        handles = [getattr(slot, "handle", slot) for slot in slots]
        waits = [_steps.set[table.name]] if table.name in _steps.set else []
        with tf.control_dependencies([] if tf.executing_eagerly() else waits):
            return apply_to_keys(
                *(optimizer, table.handle, handles, values, keys, gradients),
                flags=flags,
                use_locking=use_locking,
            )


def _slot_name(table: Any, name: str) -> str:
    unique: str = table.slot_name(name)
    return unique


def _make_slot(table: Any, name: str, initial: float) -> Any:
    return table.add_slot(_slot_name(table, name), initial)


def _update(optimizer: Any, table: Any, slices: Any, coefficients: Any) -> Any:
    """Updates the rows of the keys in some slices, and no others."""
    with beside(table):
        if isinstance(optimizer, RowOptimizer):
            return optimizer.update_slices(slices.values, table, slices.indices)
        rule = update_rule(optimizer, table, coefficients, getattr(table, "group_lasso", False))
        return update_by_key(
            *(table, rule.optimizer, rule.slots, rule.hyperparameters),
            *(slices.indices, slices.values, rule.flags, rule.use_locking),
        )


def _divide(table: Any, slices: tf.IndexedSlices) -> Sequence[tf.IndexedSlices]:
    parts: Sequence[tf.IndexedSlices] = table.divided(slices)
    return parts


@contextlib.contextmanager
def _step(tables: Sequence[Any], counter: Any) -> Iterator[None]:
    """Tells tables the step that their updates in this scope belong to, as rows' versions."""
    if counter is None:
        counter = tf.train.get_global_step()
    if counter is None or all(table.name in _steps.set for table in tables):
        yield
        return
    before = _steps.set
    _steps.set = {**before, **_set_steps(tables, counter)}
    try:
        yield
    finally:
        _steps.set = before


def _set_steps(tables: Sequence[Any], counter: Any) -> Dict[str, Any]:
    on_device: Dict[str, List[Any]] = {}
    for table in tables:
        on_device.setdefault(table.device, []).append(table)
    found: Dict[str, Any] = {}
    for together in on_device.values():
        with beside(together[0]):
            told = set_step([table.handle for table in together], counter)
        found.update(dict.fromkeys((table.name for table in together), told))
    return found
