"""Dynamic tables: rows for keys of any value, made when a key first comes, with slots beside them.

A table is behind the handle of a resource variable [any, D] of float32, which has no value of its
own; each slot has such a handle, too. What changes a table's content as a whole is in
`graph_opt.ops.dynamic_content`.
"""

from __future__ import annotations

import weakref
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from graph_opt.compat import tf
from graph_opt.compat.eager import executing_eagerly, is_eager
from graph_opt.ops.library import load_library
from graph_opt.ops.optimizers import default_flags

# How the part of a partitioned table that has a key follows from it: see `group_dynamic_rows`.
BY_KEY = "key"
BY_KEY_1000 = "key1000"


class EvictingLookup(NamedTuple):
    """Rows of keys, and the rows that a full table gave up for new ones.

    Attributes:
      values: As from `lookup`.
      evicted_keys: int64 [n].
      evicted_values: float32 [n, D].
    """

    values: tf.Tensor
    evicted_keys: tf.Tensor
    evicted_values: tf.Tensor


class DynamicRows(NamedTuple):
    """Numbers of rows of keys, for the group ops.

    Attributes:
      rows: int64 of the shape of the lookup's ids. Row r of part p is r * P + p: the group ops
        take them as ids of a table of P shards with the partition strategy `mod`.
      table_rows: int64 [parts of all tables]. Numbers of rows in each part are below.
    """

    rows: List[tf.Tensor]
    table_rows: tf.Tensor


def initialize_table(table: tf.Tensor, bank: Any, options: str, name: Optional[str] = None) -> Any:
    """Makes the table behind a handle, or takes all rows from the one that is there.

    Args:
      table: Handle of a resource variable [any, D] of float32.
      bank: float32 [rows, D]. The first values of new rows if the options' `initial` is a bank: key
        k begins as row k mod rows; else [0, D].
      options: JSON of the table's options (`ops_src/kernels/dynamic/table_options.cc`).
      name: Name of the node.

    Returns:
      The operation; None eagerly.
    """
    return load_library().dynamic_table_initialize(
        table=table, bank=tf.convert_to_tensor(bank, tf.float32), options=options, name=name
    )


def table_is_initialized(table: tf.Tensor, name: Optional[str] = None) -> tf.Tensor:
    """Whether a table, or a slot of one, is initialized: a bool scalar."""
    return load_library().dynamic_table_is_initialized(table=table, name=name)


def initialize_slot(
    table: tf.Tensor,
    slot: tf.Tensor,
    slot_name: str,
    initial: float,
    options: str,
    name: Optional[str] = None,
) -> Any:
    """Gives a table a slot beside each row; all rows that it has then have the initial value.

    Args:
      table: Handle of the table, which may be initialized before or after.
      slot: Handle of a resource variable of the table's width, for the slot.
      slot_name: Name of the slot among those of the table.
      initial: What new rows have in the slot.
      options: JSON of the table's options, the same as for `initialize_table`.
      name: Name of the node.

    Returns:
      The operation; None eagerly.
    """
    return load_library().dynamic_table_slot_initialize(
        table=table, slot=slot, slot_name=slot_name, initial=initial, options=options, name=name
    )


def destroyed_with(owner: Any, handle: tf.Tensor) -> None:
    """Forgets an eager table or slot when `owner` is deleted; a graph's tables stay.

    Args:
      owner: Whoever has the handle, such as a variable.
      handle: Handle of a table, or of a slot.
    """
    if is_eager(handle):
        weakref.finalize(owner, _destroy, handle).atexit = False


def _destroy(handle: tf.Tensor) -> None:
    with executing_eagerly():  # whatever graph was being built when its owner was deleted
        load_library().dynamic_table_destroy(table=handle)


def lookup(
    table: tf.Tensor,
    keys: tf.Tensor,
    insert: Any,
    counts: Optional[tf.Tensor] = None,
    defaults: Optional[tf.Tensor] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """The rows of keys.

    Args:
      table: Handle of the table.
      keys: int32 or int64, of any shape. Any numbers, any number of times.
      insert: bool. Whether keys without a row get one; otherwise they read a default row.
      counts: int64 of the shape of `keys`: how often each one occurred; None: once each.
      defaults: float32 [keys, D]: the first values of new rows; None: those that the table gives.
      name: Name of the node.

    Returns:
      float32, of the shape of `keys`, and D. The op fails with FailedPreconditionError if the table
      is not initialized, with ResourceExhaustedError if there is no room for a row.

    Example:
      >>> rows = lookup(table.handle, tf.constant([7, 12, 7]), insert=True)
    """
    return load_library().dynamic_table_lookup(
        table=table,
        keys=keys,
        counts=tf.constant([], tf.int64) if counts is None else counts,
        defaults=tf.constant([], tf.float32) if defaults is None else defaults,
        insert=tf.cast(insert, tf.bool),
        name=name,
    )


def lookup_and_evict(
    table: tf.Tensor,
    keys: tf.Tensor,
    insert: Any,
    counts: Optional[tf.Tensor] = None,
    defaults: Optional[tf.Tensor] = None,
    name: Optional[str] = None,
) -> EvictingLookup:
    """The rows of keys, as `lookup`, and what the table gave up for new ones."""
    found = load_library().dynamic_table_lookup_and_evict(
        table=table,
        keys=keys,
        counts=tf.constant([], tf.int64) if counts is None else counts,
        defaults=tf.constant([], tf.float32) if defaults is None else defaults,
        insert=tf.cast(insert, tf.bool),
        name=name,
    )
    return EvictingLookup(*found)


def group_dynamic_rows(
    tables: Sequence[tf.Tensor],
    ids: Sequence[tf.Tensor],
    lookup_tables: Sequence[int],
    table_names: Sequence[str],
    insert: Any,
    table_shards: Sequence[int] = (),
    partition_strategies: Sequence[str] = (),
    skip_negative: bool = False,
    name: Optional[str] = None,
) -> DynamicRows:
    """Numbers of rows of keys, for the group ops, which take them as ids.

    The table keeps these rows where they are as long as anyone keeps a tensor of their numbers.

    Args:
      tables: Handles of the parts of each table.
      ids: [L]. int32 or int64, of any shape. Keys of each lookup.
      lookup_tables: [L]. Number of the table that each lookup reads.
      table_names: [T]. For error messages.
      insert: bool. As for `lookup`.
      table_shards: [T]. The number of parts of each table; empty for one each.
      partition_strategies: [T]. `BY_KEY` if key k is in part k mod P, or `BY_KEY_1000` if it is in
        part k mod 1000 mod P, both with non-negative remainders; may be empty if all have one part.
      skip_negative: Whether keys below 0 have row -1, and get none.
      name: Name of the node.

    Returns:
      The numbers, and for each part what they are below.
    """
    rows, table_rows = load_library().group_dynamic_rows(
        tables=list(tables),
        ids=list(ids),
        insert=tf.cast(insert, tf.bool),
        num_lookups=len(ids),
        lookup_tables=list(lookup_tables),
        table_names=list(table_names),
        table_shards=list(table_shards),
        partition_strategies=list(partition_strategies),
        skip_negative=skip_negative,
        name=name,
    )
    return DynamicRows(list(rows), table_rows)


def apply_to_keys(
    optimizer: str,
    table: tf.Tensor,
    slots: Sequence[tf.Tensor],
    hyperparameters: Sequence[Any],
    keys: tf.Tensor,
    gradients: tf.Tensor,
    flags: Optional[Sequence[str]] = None,
    use_locking: bool = False,
    name: Optional[str] = None,
) -> Any:
    """Updates the rows of keys; gradients of a key that occurs several times are summed first.

    Keys without a row are passed over. Other rows stay as they are, whatever the optimizer.

    Args:
      optimizer: Name of its spec (`graph_opt.ops.optimizers`).
      table: Handle of the table.
      slots: Handles of its slots, in the order of the spec.
      hyperparameters: Scalars, in the order of the spec.
      keys: int32 or int64 [n].
      gradients: float32 [n, D].
      flags: The optimizer's flags that are set; None for the defaults of its spec.
      use_locking: Whether no other update runs meanwhile.
      name: Name of the node.

    Returns:
      The operation; None eagerly.

    Example:
      >>> apply_to_keys("GradientDescent", table.handle, [], [0.1], slices.indices, slices.values)
    """
    return load_library().dynamic_table_apply(
        table=table,
        slots=list(slots),
        hyperparameters=[tf.cast(value, tf.float32) for value in hyperparameters],
        keys=keys,
        gradients=tf.cast(gradients, tf.float32),
        optimizer=optimizer,
        flags=list(default_flags(optimizer) if flags is None else flags),
        use_locking=use_locking,
        name=name,
    )


def set_step(tables: Sequence[tf.Tensor], step: Any, name: Optional[str] = None) -> Any:
    """Tells tables the number of the training step, which updated rows are stamped with.

    Args:
      tables: Handles of tables on one device.
      step: An integer scalar.
      name: Name of the node.

    Returns:
      The operation; None eagerly.
    """
    return load_library().dynamic_table_set_step(
        tables=list(tables), step=tf.cast(step, tf.int64), name=name
    )


def once_run(result: tf.Tensor, value: tf.Tensor) -> Tuple[tf.Tensor, List[tf.Tensor]]:
    """A value for what must not begin before an op has run, and what else to wait for.

    Args:
      result: An output of the op.
      value: A tensor of the op's graph.
    """
    if tf.executing_eagerly():
        return value, []
    if result.graph is tf.get_default_graph():
        return value, [result]
    # The gradient of a function cannot wait for an op of the function, but for a tensor.
    with result.graph.as_default(), tf.control_dependencies([result]):
        return tf.identity(value), []


def differentiate_lookup(op: tf.Operation, gradient: tf.Tensor, *_: Any) -> List[Any]:
    """The gradient function of `lookup`: IndexedSlices whose indices are keys.

    There is no tensor as large as all keys: by their dense_shape it has no rows, so that turning
    them into a tensor fails. Conditionals, which merge them with zeros of the handle's shape, need
    them to have one.
    """
    keys = op.inputs[1]
    width = tf.dimension_value(op.outputs[0].shape[-1])
    size = tf.expand_dims(tf.size(keys), 0)
    columns = tf.shape(gradient)[-1:] if width is None else [width]
    values = tf.reshape(gradient, tf.concat([size, columns], 0))
    shape = tf.concat([[0], columns], 0) if width is None else tf.constant([0, width])
    # New keys have rows once they were looked up, on which their gradient need not depend.
    keys, waits = once_run(op.outputs[0], keys)
    with tf.control_dependencies(waits):
        indices = tf.reshape(keys, size)
    return [tf.IndexedSlices(values, indices, shape), None, None, None, None]
