"""Optimizers of TensorFlow and Keras on dynamic tables: slots beside rows, updates by key.

A slot becomes one of the table, and the update a `DynamicTableApply` by the optimizer's spec, with
the hyperparameters that `compat/update_rules.py` finds in it. It waits for an op that tells the
tables the step.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set

from graph_opt.compat import tf
from graph_opt.compat.keras_table_training import keras_optimizers_train
from graph_opt.compat.resource_variables import beside
from graph_opt.compat.table_training import (
    OfTables,
    is_dynamic_table,
    train_optimizers_train,
)
from graph_opt.compat.train_optimizers import RowOptimizer
from graph_opt.compat.update_rules import UpdateRule, update_rule
from graph_opt.ops.dynamic_table import apply_to_keys, set_step
from graph_opt.ops.optimizers import optimizer_specs
from graph_opt.reporting.stderr import say_for_all_ranks

_OF_NEW_ROWS = (
    "{} moves rows of variables that no batch has had yet; with a hash table a key has no row "
    "until then, so its numbers differ from those of a variable"
)

_said: Set[str] = set()


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
    """Updates the rows of the keys in some slices; others only in tables that ask for it."""
    with beside(table):
        if isinstance(optimizer, RowOptimizer):
            return optimizer.update_slices(slices.values, table, slices.indices)
        rule = update_rule(optimizer, table, coefficients, getattr(table, "group_lasso", False))
        if getattr(table, "moves_every_row", False) and _moves_every_row(rule):
            slices = _with_all_keys(table, slices)
            if rule.moves_new_rows:
                _say_once(_OF_NEW_ROWS.format(type(optimizer).__name__))
        return update_by_key(
            *(table, rule.optimizer, rule.slots, rule.hyperparameters),
            *(slices.indices, slices.values, rule.flags, rule.use_locking),
        )


def _moves_every_row(rule: UpdateRule) -> bool:
    if rule.moves_every_row is None:
        return optimizer_specs()[rule.optimizer].moves_every_row
    return rule.moves_every_row


def _say_once(text: str) -> None:
    if text not in _said:
        _said.add(text)
        say_for_all_ranks(text)


def _with_all_keys(table: Any, slices: tf.IndexedSlices) -> tf.IndexedSlices:
    """The same gradient, with zeros for all keys that the table has."""
    keys = table.export().keys
    zeros = tf.zeros([tf.size(keys), table.dim], slices.values.dtype)
    return tf.IndexedSlices(
        tf.concat([slices.values, zeros], axis=0),
        tf.concat([tf.cast(slices.indices, keys.dtype), keys], axis=0),
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
