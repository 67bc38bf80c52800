"""Tables that give rows to keys when they first see them: which rank has a key, and in which row.

    rank                                     owner
    keys_by_owner   keys, each once   -->    asked_keys     requests of all ranks -> keys
                                             rows_of_keys   keys -> rows of the table

Which row has which key is in a variable (`row_keys`), for checkpoints; an index of it, from key to
row, is made and kept beside it.
"""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.ops.library import load_library

NONE = "none"
CONSTANT = "constant"


class KeysByOwner(NamedTuple):
    """What to ask the ranks that own keys.

    Attributes:
      requests: int64. For rank 0, 1, ..., a header, and its keys, each once.
      splits: int32 [N]. How many numbers go to each rank.
      places: int64 [K]. The place among all these keys, and among their rows, of each occurrence.
    """

    requests: tf.Tensor
    splits: tf.Tensor
    places: tf.Tensor


class AskedKeys(NamedTuple):
    """What all ranks ask one for.

    Attributes:
      keys: int64. Those that rank 0, 1, ... asks for, one after another.
      counts: int32 [N]. How many each asks for.
    """

    keys: tf.Tensor
    counts: tf.Tensor


class FirstValues(NamedTuple):
    """How a row starts that is given to a key.

    Attributes:
      initial: `none`: as it is; `constant`; or a distribution of `graph_opt.ops.initial_rows`.
      first: The constant, lower bound or mean.
      second: Upper bound or standard deviation.
      stream: Of the random numbers, any int64.
    """

    initial: str = NONE
    first: float = 0.0
    second: float = 0.0
    stream: int = 0


def keys_by_owner(
    occurrences: tf.Tensor, num_ranks: int, table_name: str, table_width: int, input_ended: Any
) -> KeysByOwner:
    """Groups keys by the rank that is their non-negative remainder by the number of ranks.

    Args:
      occurrences: int64 [K]. Any numbers, any number of times.
      num_ranks: Number of ranks.
      table_name: Name of the table: all ranks must ask for rows of the same.
      table_width: Its number of columns.
      input_ended: bool. As for `graph_opt.ops.exchange.exchange_lookup`.
    """
    asked = load_library().exchange_keys_by_owner(
        occurrences=occurrences,
        input_ended=input_ended,
        num_ranks=num_ranks,
        table_name=table_name,
        table_width=table_width,
    )
    return KeysByOwner(*asked)


def asked_keys(requests: tf.Tensor, splits: tf.Tensor, exchange: str) -> AskedKeys:
    """The keys that all ranks ask this one for.

    Args:
      requests: int64. From `keys_by_owner` of each rank, or `exchange_failure`, rank after rank.
      splits: int32 [N]. How many numbers each has sent.
      exchange: For `graph_opt.ops.joined_exchanges.joined`.

    Returns:
      The keys. The op fails on all ranks with the same error, "rank R: " and its text, if a rank
      has sent one in place of keys; with OutOfRangeError if the input of all ranks has ended.
    """
    return AskedKeys(
        *load_library().exchange_asked_keys(requests=requests, splits=splits, exchange=exchange)
    )


def key_index(name: str) -> tf.Tensor:
    """The handle of an index.

    Args:
      name: Of the table. Handles with equal names share their index, except eagerly.
    """
    shared = uuid.uuid4().hex if tf.executing_eagerly() else name
    return load_library().key_index_handle_op(shared_name=shared, name="key_index")


def rows_of_keys(
    row_keys: tf.Tensor,
    table: tf.Tensor,
    index: tf.Tensor,
    keys: tf.Tensor,
    add: Any,
    values: FirstValues,
    name: Optional[str] = None,
) -> tf.Tensor:
    """The rows of keys; those that are new get the next rows.

    Args:
      row_keys: Handle of an int64 variable [1 + rows]: the number of keys, then each row's key.
      table: Handle of a float32 variable [rows, D].
      index: From `key_index`.
      keys: int64 [n]. Any numbers, any number of times.
      add: bool. Whether new keys get rows.
      values: How these start.
      name: Name of the node.

    Returns:
      int64 [n]; -1 for keys without a row. The op fails with ResourceExhaustedError, and changes
      nothing, if more keys are new than rows are left.
    """
    return load_library().resource_key_rows(
        row_keys=row_keys,
        table=table,
        index=index,
        keys=keys,
        add=tf.cast(add, tf.bool),
        name=name,
        **values._asdict(),
    )


def integer_lookup(vocabulary: tf.Tensor, index: tf.Tensor, keys: tf.Tensor, add: Any) -> tf.Tensor:
    """Numbers keys from 1 on, in the order in which they come.

    Args:
      vocabulary: Handle of an int64 variable [1 + tokens]: the number of keys, then each of them.
      index: From `key_index`.
      keys: int64, of any shape. Any numbers, any number of times.
      add: bool. Whether keys without a number get the next ones, while there are any.

    Returns:
      int64, of the shape of `keys`; 0 for keys without a number.
    """
    return load_library().resource_integer_lookup(
        vocabulary=vocabulary, index=index, keys=keys, add=tf.cast(add, tf.bool)
    )
