"""Tables that give rows to keys when they first see them: which rank has a key, and in which row.

    rank                                     owner
    keys_by_owner   keys, each once   -->    rows_of_keys   keys of all ranks -> rows of the table

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
    """Keys, each once, by the ranks that own them.

    Attributes:
      keys: int64. Those of rank 0, 1, ..., one after another.
      splits: int32 [N]. How many each rank has.
      places: int64 [K]. The place among `keys` of each occurrence.
    """

    keys: tf.Tensor
    splits: tf.Tensor
    places: tf.Tensor


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


def keys_by_owner(occurrences: tf.Tensor, num_ranks: int) -> KeysByOwner:
    """Groups keys by the rank that is their non-negative remainder by the number of ranks.

    Args:
      occurrences: int64 [K]. Any numbers, any number of times.
      num_ranks: Number of ranks.
    """
    return KeysByOwner(*load_library().exchange_keys_by_owner(occurrences, num_ranks=num_ranks))


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
