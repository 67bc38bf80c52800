"""Weighted lookups as any release writes them, and weights that add up to 0."""

from __future__ import annotations

from typing import Any, Dict

import numpy as np

from graph_opt.compat import tf


def divided(
    table: Any, ids: tf.SparseTensor, weights: tf.SparseTensor, combiner: str, by: Any
) -> tf.Tensor:
    """`tf.nn.embedding_lookup_sparse` of a release that divides in this way.

    Args:
      table: The table.
      ids: The ids.
      weights: Their weights.
      combiner: `mean` or `sqrtn`.
      by: `tf.realdiv`, as in TensorFlow 1, or `tf.div_no_nan`, as in later releases.
    """
    segments = tf.cast(ids.indices[:, 0], tf.int32)
    unique, places = tf.unique(ids.values)
    rows = tf.gather(tf.nn.embedding_lookup(table, unique), places)
    factors = tf.reshape(weights.values, tf.concat([tf.shape(weights.values), [1]], 0))
    total = tf.segment_sum(rows * factors, segments)
    if combiner == "mean":
        return by(total, tf.segment_sum(factors, segments))
    return by(total, tf.sqrt(tf.segment_sum(tf.pow(factors, 2), segments)))


def where_finite(rows: tf.Tensor) -> tf.Tensor:
    """The rows, and 0 for what is not finite, as scripts do that expect it."""
    return tf.where(tf.is_finite(rows), rows, tf.zeros_like(rows))


def cancelling(seed: int, rows: int, ids: int) -> Dict[str, np.ndarray]:
    """`indices`, `values`, `weights` and `shape` of bags, the last of which has an id.

    Many weights, and some sums of them, are 0; some bags before the last one have no ids.
    """
    random = np.random.RandomState(seed)
    counts = random.randint(0, 5, rows)
    counts[[0, rows // 2, -1]] = 2, 0, 1
    indices = [[row, place] for row, count in enumerate(counts) for place in range(count)]
    weights = random.randint(-1, 2, len(indices)).astype(np.float32)
    weights[:2] = 0.75, -0.75
    return {
        "indices": np.array(indices, np.int64),
        "values": random.randint(0, ids, len(indices)),
        "weights": weights,
        "shape": np.array([rows, 5], np.int64),
    }
