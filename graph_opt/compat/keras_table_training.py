"""Lets Keras' optimizers, legacy and other ones, train variables that are tables of our own.

Replaces the methods by which all of them make slots and update variables, as `table_training` does
with those of `tf.train`.
"""

from __future__ import annotations

import sys
from typing import Any

import tensorflow as stock_tf

from graph_opt.compat import tf
from graph_opt.compat.keras_optimizers import legacy
from graph_opt.compat.table_training import (
    OfTables,
    replace_function,
    slices_of,
    value_filled_with,
    with_parts,
    with_static_shapes,
)

__all__ = ["keras_optimizers_train"]


def keras_optimizers_train(tables: OfTables) -> None:
    """From now on all optimizers of Keras train such tables; a second call does nothing."""
    base = _base(legacy.SGD, "OptimizerV2")
    replace_function(base, "add_slot", tables, _add_slot)
    replace_function(base, "apply_gradients", tables, _apply_gradients)
    for owner in (base, legacy.SGD):
        _replace(owner, "_resource_apply_sparse_duplicate_indices", tables, _apply_sparse)
    experimental = getattr(stock_tf.keras.optimizers, "experimental", None)
    if experimental is None:  # before TensorFlow 2.11, or a name that Keras has no more
        return
    for name in ("_BaseOptimizer", "Optimizer"):
        base = _base(experimental.SGD, name)
        _replace(base, "add_variable_from_reference", tables, _add_variable)
        _replace(base, "_update_step", tables, _update_step)
        _replace(base, "_use_weight_decay", tables, _use_weight_decay)
        _replace(base, "apply_gradients", tables, _apply_gradients)


def _base(optimizer: Any, name: str) -> Any:
    return next(one for one in optimizer.__mro__ if one.__name__ == name)


def _replace(owner: Any, name: str, tables: OfTables, treat: Any) -> None:
    if name in vars(owner):
        replace_function(owner, name, tables, treat)


def _add_slot(
    tables: OfTables,
    stock: Any,
    optimizer: Any,
    var: Any,
    slot_name: str,
    initializer: Any = "zeros",
    *arguments: Any,
    **named: Any,
) -> Any:
    if not tables.is_table(var):
        return stock(optimizer, var, slot_name, initializer, *arguments, **named)
    if slot_name not in optimizer._slot_names:
        optimizer._slot_names.append(slot_name)
    slots = optimizer._slots.setdefault(_key(var), {})
    if slot_name not in slots:
        name = "{}/{}".format(optimizer._name, slot_name)
        slots[slot_name] = tables.make_slot(var, name, value_filled_with(initializer, var))
        optimizer._weights.append(slots[slot_name])
        # Otherwise a model that trains in a graph's session does not initialize it.
        sys.modules[_base(type(optimizer), "OptimizerV2").__module__].backend.track_variable(
            slots[slot_name]
        )
    return slots[slot_name]


def _key(variable: Any) -> str:
    """What an optimizer keeps slots by."""
    if variable._in_graph_mode:
        return str(variable._shared_name)
    return str(variable._unique_id)


def _apply_sparse(
    tables: OfTables, stock: Any, optimizer: Any, grad: Any, var: Any, indices: Any, **named: Any
) -> Any:
    if not tables.is_table(var):
        return stock(optimizer, grad, var, indices, **named)
    slices = tf.IndexedSlices(grad, indices)
    with tables.step([var], optimizer.iterations):
        return tables.update(optimizer, var, slices, named.get("apply_state"))


def _add_variable(
    tables: OfTables,
    stock: Any,
    optimizer: Any,
    model_variable: Any,
    variable_name: str,
    shape: Any = None,
    initial_value: Any = None,
) -> Any:
    if not tables.is_table(model_variable):
        return stock(optimizer, model_variable, variable_name, shape, initial_value)
    if initial_value is model_variable:
        raise ValueError(
            "{}(use_ema=True) averages whole variables, and {!r} is a dynamic table, which has no "
            "value as a whole: leave out use_ema".format(
                type(optimizer).__name__, model_variable.name
            )
        )
    initial = value_filled_with(initial_value, model_variable)
    name = "{}/{}".format(optimizer.name, variable_name)
    slot = tables.make_slot(model_variable, name, initial)
    optimizer._variables.append(slot)
    return slot


def _update_step(tables: OfTables, stock: Any, optimizer: Any, gradient: Any, variable: Any) -> Any:
    if not tables.is_table(variable):
        return stock(optimizer, gradient, variable)
    with tables.step([variable], optimizer.iterations):
        return tables.update(optimizer, variable, slices_of(variable, gradient), None)


def _use_weight_decay(tables: OfTables, stock: Any, optimizer: Any, variable: Any) -> bool:
    """False for tables: the update of their rows has the decay in it."""
    return not tables.is_table(variable) and stock(optimizer, variable)


def _apply_gradients(
    tables: OfTables, stock: Any, optimizer: Any, grads_and_vars: Any, *given: Any, **named: Any
) -> Any:
    pairs = with_parts(tables, grads_and_vars)
    found = [variable for _, variable in pairs if tables.is_table(variable)]
    with with_static_shapes(found):
        return stock(optimizer, pairs, *given, **named)
