"""Numbers of keys, in the order in which they come.

Which number has which key is in a variable (`vocabulary`), for checkpoints; an index of it, from
key to number, is made and kept beside it.
"""

from __future__ import annotations

import uuid
from typing import Any

from graph_opt.compat import tf
from graph_opt.ops.library import load_library


def key_index(name: str) -> tf.Tensor:
    """The handle of an index.

    Args:
      name: Of the vocabulary. Handles with equal names share their index, except eagerly.
    """
    shared = uuid.uuid4().hex if tf.executing_eagerly() else name
    return load_library().key_index_handle_op(shared_name=shared, name="key_index")


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
