"""Tables of which every rank has a part."""

from __future__ import annotations

import weakref
from typing import Any, Callable, List, MutableMapping, Optional, Sequence, Tuple, TypeVar

import numpy as np

from graph_opt.compat import tf
from graph_opt.sharding.divided_variable import DividedVariable, StaticVariable
from graph_opt.sharding.initial_part import initial_part, name_of_eager_table
from graph_opt.sharding.placement import ModRows, RowsOnRank, RowsRule, Slice
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.rank_table import RankTable

Table = TypeVar("Table")

TABLES = (DividedVariable, RankTable)
"""Classes of variables that are divided among ranks."""

_LOCALIZED = "localized"
# What follows `initial_value` in `tf.Variable`.
_POSITIONAL = ("trainable", "validate_shape", "caching_device", "name")
_unnamed: MutableMapping[Any, int] = weakref.WeakKeyDictionary()


def Variable(  # noqa: N802 (SparseOperationKit's name)
    initial_value: Any = None,
    *positional: Any,
    mode: Optional[str] = None,
    shape: Optional[Sequence[int]] = None,
    initializer: Any = None,
    **arguments: Any,
) -> StaticVariable:
    """A table of which this rank has a part. All ranks must make the same tables in the same order.

    Each row starts with the same values on any number of ranks, drawn from a stream of its own: not
    the numbers that TensorFlow would draw. Each table of a graph, or of eager execution, starts
    with other values.

    Args:
      initial_value: The whole table: a list, array or tensor [rows, width], or [width] for one row.
      *positional: The arguments of `tf.Variable` that follow it: `trainable` and so on.
      mode: None or `distributed`: row i is row i // N on rank i % N. `localized:R`: the table is on
        rank R, and the others have no rows.
      shape: Without `initial_value`: the shape of the whole table.
      initializer: Without `initial_value`: an initializer, its class or name, or a number; or a
        function `(shape, dtype=)` of the whole table.
      **arguments: Others of `tf.Variable`: `dtype`, `name` (the same on all ranks), and so on.

    Raises:
      RuntimeError: There is no such mode or rank, or several ranks have not called `sok.init`.
      ValueError: The table is not a matrix.
      TypeError: An argument is given twice, or a reference variable is asked for.

    Example:
      >>> table = sok.Variable(shape=[1000, 16], initializer=tf.random_uniform_initializer())
    """
    given = dict(zip(_POSITIONAL, positional))
    twice = sorted(set(given) & set(arguments))
    if twice:
        raise TypeError("sok.Variable got two values of {}".format(", ".join(twice)))
    if arguments.pop("use_resource", True) is False:
        raise TypeError("sok.Variable has no reference variables: leave out use_resource=False")
    return static_variable(
        StaticVariable, initial_value, mode, shape, initializer, **given, **arguments
    )


def static_variable(
    kind: Callable[..., Table],
    initial_value: Any = None,
    mode: Optional[str] = None,
    shape: Optional[Sequence[int]] = None,
    initializer: Any = None,
    dtype: Any = None,
    name: Optional[str] = None,
    **arguments: Any,
) -> Table:
    """As `Variable`.

    Args:
      kind: The class to make: `StaticVariable`, or one that is derived from it.
      initial_value: See `Variable`, as for all that follow.
      mode: How rows are divided.
      shape: Of the whole table.
      initializer: Of its rows.
      dtype: Of the table.
      name: The same on all ranks.
      **arguments: Of `tf.Variable`, or of the class.
    """
    transport = transport_in_use()
    if initial_value is None and shape is None:
        raise ValueError("sok.Variable needs either an initial value or a shape")
    name = name or _default_name()
    whole = None if initial_value is None else _as_matrix(initial_value, dtype)
    rows_and_width = tuple(
        int(size) for size in (whole.shape if whole is not None else shape or ())
    )
    if len(rows_and_width) != 2:
        raise ValueError("sok.Variable {!r} needs a shape [rows, width]".format(name))
    dtype = tf.as_dtype((dtype or tf.float32) if whole is None else whole.dtype)
    rule = _rule(mode, rows_and_width[0], transport)
    start = _start(whole, initializer, rows_and_width, dtype, name, rule, transport)
    local = (rule.num_local_rows(transport.rank), rows_and_width[1])
    return kind(
        transport=transport,
        rows=rule,
        width=rows_and_width[1],
        initial_value=lambda: tf.ensure_shape(start(), local),
        dtype=dtype,
        name=name,
        **arguments,
    )


def filter_variables(variables: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """Separates tables of this module from all other variables."""
    ours = [one for one in variables if isinstance(one, TABLES)]
    return ours, [one for one in variables if not isinstance(one, TABLES)]


def _rule(mode: Optional[str], num_rows: int, transport: Transport) -> RowsRule:
    if mode in (None, "distributed"):
        return ModRows(num_rows, transport.size)
    kind, _, rank = str(mode).partition(":")
    if kind != _LOCALIZED or not rank.isdigit():
        raise RuntimeError(
            "mode is {!r}; choose None, 'distributed' or 'localized:RANK'".format(mode)
        )
    if int(rank) >= transport.size:
        raise RuntimeError("mode is {!r}, but there are {} ranks".format(mode, transport.size))
    return RowsOnRank(num_rows, transport.size, int(rank))


def _as_matrix(value: Any, dtype: Any) -> Any:
    if not tf.is_tensor(value):
        array = np.asarray(value, None if dtype is None else tf.as_dtype(dtype).as_numpy_dtype)
        if dtype is None and not isinstance(value, np.ndarray) and array.dtype == np.float64:
            array = array.astype(np.float32)
        value = array
    elif dtype is not None:
        value = tf.cast(value, dtype)
    return value[np.newaxis] if len(value.shape) == 1 else value


def _start(
    whole: Any,
    initializer: Any,
    shape: Tuple[int, int],
    dtype: Any,
    name: str,
    rule: RowsRule,
    transport: Transport,
) -> Any:
    """A function that makes this rank's first rows, from the same nodes on all ranks."""
    rank = transport.rank
    if isinstance(whole, np.ndarray):
        part = whole[rule.keys(rank)]
        return lambda: tf.constant(part, dtype)
    if whole is not None:
        return lambda: tf.gather(whole, _keys(rule, rank))
    part = Slice(rule, 0, shape[1])
    return lambda: initial_part(
        initializer, part, rank, shape[1], dtype, _full_name(transport, name)
    )


def _keys(rule: RowsRule, rank: int) -> tf.Tensor:
    rows = tf.range(tf.constant(rule.num_local_rows(rank), tf.int64), dtype=tf.int64)
    return rule.key(rank, rows)


def _full_name(transport: Transport, name: str) -> str:
    """The variable's own name, from within its initializer: tables must not start alike."""
    if tf.executing_eagerly():
        return name_of_eager_table(transport, name)
    scope = tf.get_default_graph().get_name_scope()
    return scope[: -len("/Initializer")] if scope.endswith("/Initializer") else name


def _default_name() -> str:
    graph = tf.get_default_graph()
    number = _unnamed.get(graph, 0)
    _unnamed[graph] = number + 1
    return "sok_static_Variable_{}".format(number)
