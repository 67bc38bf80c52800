"""Tables of which every rank has a part."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, MutableMapping, Optional, Sequence, Tuple

import numpy as np

from graph_opt.compat import tf
from graph_opt.compat.signatures import with_signature
from graph_opt.sharding.initial_part import initial_part, name_of_eager_table
from graph_opt.sharding.placement import ModRows, RowsOnRank, RowsRule, Slice
from graph_opt.sharding.sharded_variable import ShardedVariable, StaticVariable
from graph_opt.sharding.transport import Transport
from graph_opt.sharding.transport_in_use import transport_in_use
from graph_opt.sok.rank_table import RankTable, rank_of_mode

TABLES = (ShardedVariable, RankTable)
"""Classes of variables that are sharded across ranks."""

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
    given.update(arguments, shape=shape, initializer=initializer)
    rank = rank_of_mode(mode, transport_in_use())
    if rank is None:
        return DistributedVariable(initial_value, **given)
    return LocalizedVariable(initial_value, target_gpu=rank, **given)


@with_signature
class DistributedVariable(StaticVariable):
    """What `Variable` makes without a mode: row i is row i // N on rank i % N.

    Args:
      initial_value: As for `Variable`, as are `shape`, `initializer` and all others.
      global_gpu_id: Number of this rank, which it has anyway.
      num_gpus: Number of ranks, likewise.
      **arguments: See `Variable`.

    Raises:
      ValueError: The process has another rank, or number of ranks.

    Example:
      >>> table = sok.DistributedVariable(shape=[1000, 16], initializer="random_uniform")
    """

    def __init__(
        self,
        initial_value: Any = None,
        *,
        global_gpu_id: Optional[int] = None,
        num_gpus: Optional[int] = None,
        **arguments: Any,
    ) -> None:
        _check_ranks(global_gpu_id, num_gpus)
        super().__init__(**part_of_table(initial_value, **arguments))


@with_signature
class LocalizedVariable(StaticVariable):
    """What `Variable` makes with `mode="localized:R"`: rank R has the table, the others no rows.

    Args:
      initial_value: As for `Variable`, as are `shape`, `initializer` and all others.
      target_gpu: R.
      global_gpu_id: Number of this rank, which it has anyway.
      **arguments: See `Variable`.

    Raises:
      RuntimeError: There is no such rank.
      ValueError: The process has another rank.

    Example:
      >>> table = sok.LocalizedVariable([[0.5] * 16] * 1000, target_gpu=0)
    """

    def __init__(
        self,
        initial_value: Any = None,
        *,
        target_gpu: int = 0,
        global_gpu_id: Optional[int] = None,
        **arguments: Any,
    ) -> None:
        _check_ranks(global_gpu_id, None)
        mode = "localized:{}".format(target_gpu)
        super().__init__(**part_of_table(initial_value, mode, **arguments))


def part_of_table(
    initial_value: Any = None,
    mode: Optional[str] = None,
    shape: Optional[Sequence[int]] = None,
    initializer: Any = None,
    dtype: Any = None,
    name: Optional[str] = None,
    use_resource: bool = True,
    **arguments: Any,
) -> Dict[str, Any]:
    """The arguments of `StaticVariable` for a table.

    Args:
      initial_value: See `Variable`.
      mode: How rows are divided.
      shape: Of the whole table.
      initializer: Of its rows.
      dtype: Of the table.
      name: The same on all ranks.
      use_resource: Must be true.
      **arguments: Of `tf.Variable`, or of the class.
    """
    if not use_resource:
        raise TypeError("sok.Variable has no reference variables: leave out use_resource=False")
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
    rule = _rule(rank_of_mode(mode, transport), rows_and_width[0], transport.size)
    start = _start(whole, initializer, rows_and_width, dtype, name, rule, transport)
    local = (rule.num_local_rows(transport.rank), rows_and_width[1])
    return dict(
        arguments,
        transport=transport,
        rows=rule,
        width=rows_and_width[1],
        initial_value=lambda: tf.ensure_shape(start(), local),
        dtype=dtype,
        name=name,
    )


def filter_variables(variables: Sequence[Any]) -> Tuple[List[Any], List[Any]]:
    """Separates tables of this module from all other variables.

    Example:
      >>> tables, others = sok.filter_variables(tf.trainable_variables())
    """
    ours = [one for one in variables if isinstance(one, TABLES)]
    return ours, [one for one in variables if not isinstance(one, TABLES)]


def _rule(rank: Optional[int], num_rows: int, ranks: int) -> RowsRule:
    return ModRows(num_rows, ranks) if rank is None else RowsOnRank(num_rows, ranks, rank)


def _check_ranks(rank: Optional[int], ranks: Optional[int]) -> None:
    transport = transport_in_use()
    if rank not in (None, transport.rank) or ranks not in (None, transport.size):
        raise ValueError(
            "global_gpu_id is {} and num_gpus is {}, but this is rank {} of {}".format(
                rank, ranks, transport.rank, transport.size
            )
        )


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
