"""Lets optimizers of `tf.train` train variables that are tables of a kind of our own.

Optimizers make slots like the variables that they train, and update these by ops that take both as
memory. Tables have slots and updates of their own. So the few functions that all optimizers call
are replaced by ones that treat tables apart: those of `slot_creator`, `_get_processor`,
`Optimizer.compute_gradients` and `apply_gradients`, and `ExponentialMovingAverage.apply`.
"""

from __future__ import annotations

import contextlib
import functools
from typing import (
    Any,
    Callable,
    ContextManager,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Sequence,
    Tuple,
)

from tensorflow.python.eager.backprop import GradientTape
from tensorflow.python.ops import gradients_util
from tensorflow.python.training import optimizer as train_optimizer
from tensorflow.python.training import slot_creator

from graph_opt.compat import tf
from graph_opt.compat.eager import executing_eagerly
from graph_opt.compat.resource_variables import PartitionedVariable, WithoutValue

__all__ = [
    "OfTables",
    "PlainSlot",
    "is_dynamic_table",
    "replace_function",
    "slices_of",
    "train_optimizers_train",
    "value_filled_with",
    "with_parts",
    "with_static_shapes",
]


class OfTables(NamedTuple):
    """What is done with tables instead.

    Attributes:
      is_table: Whether a variable is a table.
      slot_name: From a table and a name to one that no slot of the table has yet.
      make_slot: From a table, a name and an initial value to the table's slot, a new one.
      update: From an optimizer, a table, IndexedSlices and legacy Keras' coefficients to the op.
      step: From tables and the variable that counts steps, or None, to a context in which they are
        updated.
      divide: From a table in parts and IndexedSlices of it to those of the parts.
    """

    is_table: Callable[[Any], bool]
    slot_name: Callable[[Any, str], str]
    make_slot: Callable[[Any, str, float], Any]
    update: Callable[[Any, Any, Any, Any], Any]
    step: Callable[[Sequence[Any], Any], ContextManager[None]]
    divide: Callable[[Any, tf.IndexedSlices], Sequence[tf.IndexedSlices]]


class SlicesOfParts(tf.IndexedSlices):
    """The gradient of a table in parts, as one.

    Attributes:
      of_parts: The gradient of each part; None for those that have none.
    """

    def __init__(self, of_parts: Sequence[Any]) -> None:
        self.of_parts = list(of_parts)
        found = [one for one in of_parts if one is not None]
        slices = [tf.convert_to_tensor_or_indexed_slices(one) for one in found]
        super().__init__(
            tf.concat([one.values for one in slices], 0),
            tf.concat([one.indices for one in slices], 0),
            slices[0].dense_shape,
        )


def is_dynamic_table(variable: Any) -> bool:
    """Whether a variable is a dynamic table, or a part of one: the only ones with such a method."""
    return hasattr(variable, "add_slot")


class PlainSlot(tf.constant_initializer):
    """The initializer of a slot that is a variable, also if it is a table's."""


def train_optimizers_train(tables: OfTables) -> None:
    """From now on all optimizers of `tf.train` train such tables; a second call does nothing."""
    replace_function(slot_creator, "create_slot", tables, _create_slot)
    replace_function(
        slot_creator, "create_slot_with_initializer", tables, _create_slot_with_initializer
    )
    replace_function(slot_creator, "create_zeros_slot", tables, _create_zeros_slot)
    replace_function(train_optimizer, "_get_processor", tables, _get_processor)
    replace_function(train_optimizer.Optimizer, "apply_gradients", tables, _apply_gradients)
    replace_function(train_optimizer.Optimizer, "compute_gradients", tables, _compute_gradients)
    replace_function(gradients_util, "_GradientsHelper", tables, _gradients)
    replace_function(GradientTape, "gradient", tables, _tape_gradient)
    replace_function(tf.train.ExponentialMovingAverage, "apply", tables, _apply_average)


def replace_function(owner: Any, name: str, tables: OfTables, treat: Callable[..., Any]) -> None:
    """Replaces a function or method, once, by one that calls `treat(tables, stock, arguments)`."""
    stock = getattr(owner, name)
    if getattr(stock, "_treats_tables", False):
        return

    @functools.wraps(stock)
    def replaced(*arguments: Any, **named: Any) -> Any:
        return treat(tables, stock, *arguments, **named)

    replaced._treats_tables = True  # type: ignore[attr-defined]
    setattr(owner, name, replaced)


@contextlib.contextmanager
def with_static_shapes(variables: Iterable[Any]) -> Iterator[None]:
    """A scope in which tables have the shape of one row, so that slots can be filled for them."""
    before = []
    for variable in variables:
        if not variable.shape.is_fully_defined():
            before.append((variable, variable._shape))
            variable._shape = tf.TensorShape([1, *variable.shape[1:]])
    try:
        yield
    finally:
        for variable, shape in before:
            variable._shape = shape


def slices_of(table: Any, gradient: Any) -> tf.IndexedSlices:
    """The gradient of a table.

    Raises:
      ValueError: It is no IndexedSlices.
    """
    if isinstance(gradient, tf.IndexedSlices):
        return gradient
    raise ValueError(
        "the gradient of {!r} is a tensor, but a dynamic table is updated by keys: pass on the "
        "IndexedSlices that tf.gradients returns, without converting them".format(table.name)
    )


def with_parts(tables: OfTables, grads_and_vars: Iterable[Any]) -> List[Tuple[Any, Any]]:
    """Gradients and variables, with the parts of a table in parts in its place.

    Raises:
      ValueError: The gradient of such a table is no IndexedSlices.
    """
    pairs: List[Tuple[Any, Any]] = []
    for gradient, variable in grads_and_vars:
        if not isinstance(variable, PartitionedVariable):
            pairs.append((gradient, variable))
        elif isinstance(gradient, SlicesOfParts):
            pairs.extend(zip(gradient.of_parts, variable))
        elif gradient is None:
            pairs.extend((None, part) for part in variable)
        else:
            slices = slices_of(variable, gradient)
            pairs.extend(zip(tables.divide(variable, slices), variable))
    return pairs


def value_filled_with(initial: Any, table: Any) -> float:
    """The number that a slot is filled with: by an initializer, its name, a tensor or None.

    Raises:
      ValueError: It is not one number, or known only once the graph runs.
    """
    if initial is None:
        return 0.0
    if isinstance(initial, str):
        initial = tf.keras.initializers.get(initial)
    if callable(initial):
        with executing_eagerly():
            initial = initial(shape=[1], dtype=table.dtype.base_dtype)
            return float(initial.numpy()[0])
    value = tf.get_static_value(initial)
    if value is None or (value != value.reshape(-1)[0]).any():
        raise ValueError(
            "a slot of {!r} begins with values that are not one number, which no dynamic table can "
            "have".format(table.name)
        )
    return float(value.reshape(-1)[0])


class _Processor(train_optimizer._OptimizableVariable):
    """How an optimizer gets at a table."""

    def __init__(self, table: Any, tables: OfTables) -> None:
        self._table = table
        self._tables = tables

    def target(self) -> Any:
        return self._table

    def update_op(self, optimizer: Any, g: Any) -> Any:
        return self._tables.update(optimizer, self._table, slices_of(self._table, g), None)


def _create_slot(
    tables: OfTables, stock: Any, primary: Any, val: Any, name: str, *given: Any, **named: Any
) -> Any:
    if tables.is_table(primary):
        return tables.make_slot(primary, name, value_filled_with(val, primary))
    return stock(primary, val, name, *given, **named)


def _create_slot_with_initializer(
    tables: OfTables,
    stock: Any,
    primary: Any,
    initializer: Any,
    shape: Any,
    dtype: Any,
    name: str,
    *given: Any,
    **named: Any,
) -> Any:
    if tables.is_table(primary):
        if not isinstance(initializer, PlainSlot):
            return tables.make_slot(primary, name, value_filled_with(initializer, primary))
        name = tables.slot_name(primary, name)
    return stock(primary, initializer, shape, dtype, name, *given, **named)


def _create_zeros_slot(
    tables: OfTables, stock: Any, primary: Any, name: str, *given: Any, **named: Any
) -> Any:
    if tables.is_table(primary):
        return tables.make_slot(primary, name, 0.0)
    return stock(primary, name, *given, **named)


def _get_processor(tables: OfTables, stock: Any, variable: Any) -> Any:
    return _Processor(variable, tables) if tables.is_table(variable) else stock(variable)


def _apply_gradients(
    tables: OfTables,
    stock: Any,
    optimizer: Any,
    grads_and_vars: Any,
    global_step: Any = None,
    *given: Any,
    **named: Any,
) -> Any:
    pairs = with_parts(tables, grads_and_vars)
    found = [variable for _, variable in pairs if tables.is_table(variable)]
    if not found:
        return stock(optimizer, pairs, global_step, *given, **named)
    with with_static_shapes(found), tables.step(found, global_step):
        return stock(optimizer, pairs, global_step, *given, **named)


def _compute_gradients(
    tables: OfTables,
    stock: Any,
    optimizer: Any,
    loss: Any,
    var_list: Any = None,
    *given: Any,
    **named: Any,
) -> Any:
    if var_list is not None:
        var_list = [part for one in tf.nest.flatten(var_list) for part in _parts(one)]
    return stock(optimizer, loss, var_list, *given, **named)


def _gradients(tables: OfTables, stock: Any, ys: Any, xs: Any, *given: Any, **named: Any) -> Any:
    listed = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    gradients = iter(stock(ys, [part for x in listed for part in _parts(x)], *given, **named))
    return [_whole(x, [next(gradients) for _ in _parts(x)]) for x in listed]


def _tape_gradient(
    tables: OfTables, stock: Any, tape: Any, target: Any, sources: Any, *given: Any, **named: Any
) -> Any:
    listed = tf.nest.flatten(sources)
    parts = [_parts(one) for one in listed]
    gradients = stock(tape, target, parts, *given, **named)
    whole = [_whole(one, of_parts) for one, of_parts in zip(listed, gradients)]
    return tf.nest.pack_sequence_as(sources, whole)


def _parts(variable: Any) -> List[Any]:
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


def _whole(variable: Any, of_parts: List[Any]) -> Any:
    if not isinstance(variable, PartitionedVariable):
        return of_parts[0]
    return None if all(one is None for one in of_parts) else SlicesOfParts(of_parts)


def _apply_average(tables: OfTables, stock: Any, average: Any, var_list: Any = None) -> Any:
    given = tf.trainable_variables() if var_list is None else list(var_list)
    refused = [one.name.split(":")[0] for one in given if isinstance(one, WithoutValue)]
    if refused:
        raise ValueError(
            "ExponentialMovingAverage {!r} cannot average {}: a dynamic table has no value as a "
            "whole. Pass the other variables to apply(), such as [v for v in "
            "tf.trainable_variables() if v.name not in {}]".format(
                average.name,
                ", ".join(map(repr, refused)),
                [name + ":0" for name in refused],
            )
        )
    return stock(average, var_list)
