"""Which part of a partitioned table has a key."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.ops.dynamic_table import BY_KEY, BY_KEY_1000


def owners(keys: tf.Tensor, num_parts: int, rule: str) -> tf.Tensor:
    """The part that has each key.

    Args:
      keys: int32 or int64.
      num_parts: Number of parts.
      rule: `BY_KEY` for key mod parts, `BY_KEY_1000` for key mod 1000 mod parts (DeepRec's), both
        with non-negative remainders.

    Returns:
      int32, in the shape of `keys`.

    Example:
      >>> owners(tf.constant([1000, 2001, -1]), 2, BY_KEY_1000)  # 0, 1, 1
    """
    if rule == BY_KEY_1000:
        keys = tf.floormod(keys, tf.constant(1000, keys.dtype))
    elif rule != BY_KEY:
        raise ValueError("owner rule is {!r}; need {!r} or {!r}".format(rule, BY_KEY, BY_KEY_1000))
    return tf.cast(tf.floormod(keys, tf.constant(num_parts, keys.dtype)), tf.int32)
