"""A small model that calls functions."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow

from graph_opt.compat import tf


def looked_up_twice() -> Tuple[Any, Any, Any]:
    """Adds a function that looks rows up, which calls another, and two calls of it in `tower`.

    Returns:
      The ids that are fed, and the results of both calls.
    """
    table = tf.get_variable("table", [10, 4], use_resource=True)
    ids = tf.placeholder(tf.int64, [None], name="ids")

    @tensorflow.function
    def doubled(rows: Any) -> Any:
        return tf.multiply(rows, 2.0, name="doubled")

    @tensorflow.function
    def looked_up(ids: Any) -> Any:
        return doubled(tf.gather(table, ids, name="rows"))

    with tf.name_scope("tower"):
        return ids, looked_up(ids), looked_up(ids + 1)
