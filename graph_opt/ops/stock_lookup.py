"""A lookup of a group, done with TensorFlow's own ops."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import DENSE, RAGGED


class LookupIds(NamedTuple):
    """Ids and weights; `graph_opt.ops.group_embedding` explains the layouts.

    Attributes:
      layout: sparse, ragged or dense.
      ids: int32 or int64.
      positions: int64.
      shape: int64.
      weights: float32, with the shape of `ids`, or None.
    """

    layout: str
    ids: tf.Tensor
    positions: tf.Tensor
    shape: tf.Tensor
    weights: Optional[tf.Tensor]


def lookup_separately(
    parts: List[Any],
    ids: LookupIds,
    combiner: str,
    default_id: Optional[int],
    partition_strategy: str,
    *,
    prune: bool = True,
    fill: bool = True,
    max_norm: Optional[float] = None,
) -> tf.Tensor:
    """`tf.nn.safe_embedding_lookup_sparse` for ids and weights of any kind.

    Args:
      parts: The parts of the table.
      ids: Ids and weights.
      combiner: `sum`, `mean` or `sqrtn`.
      default_id: The table row that stands in where a row of the input has no ids; None for zeros.
      partition_strategy: `mod` or `div`.
      prune: Whether to drop ids < 0 and, unless the combiner is `sum`, weights that are not > 0.
      fill: Whether every row has a result; otherwise trailing rows without ids have none.
      max_norm: None, or the norm that rows are clipped to.
    """
    if not prune and ids.layout == DENSE and ids.weights is None and ids.ids.shape.ndims == 1:
        return tf.nn.embedding_lookup(parts, ids.ids, partition_strategy, max_norm=max_norm)
    values = sparse_ids(ids, ids.ids)
    weights = None if ids.weights is None else sparse_ids(ids, ids.weights)
    how = dict(combiner=combiner, partition_strategy=partition_strategy, max_norm=max_norm)
    if prune and fill:
        return tf.nn.safe_embedding_lookup_sparse(
            parts, values, weights, default_id=default_id, **how
        )
    if prune:
        values, weights = _pruned(values, weights, combiner)
    if not fill:
        return _combined(parts, values, weights, how)
    values, is_empty = tf.sparse.fill_empty_rows(values, default_id or 0)
    if weights is not None:
        weights, _ = tf.sparse.fill_empty_rows(weights, 1.0)
    pooled = _combined(parts, values, weights, how)
    if default_id is not None:
        return pooled
    return tf.where_v2(tf.expand_dims(is_empty, 1), tf.zeros_like(pooled), pooled)


def _combined(parts: List[Any], values: Any, weights: Any, how: Dict[str, Any]) -> tf.Tensor:
    """`tf.nn.embedding_lookup_sparse` that gives 0 where weights add up to 0, as our op does."""
    pooled = tf.nn.embedding_lookup_sparse(parts, values, weights, **how)
    if weights is None or pooled.op.type != "RealDiv":
        return pooled
    return tf.div_no_nan(*pooled.op.inputs)  # TensorFlow 1's division would give nan.


def _pruned(values: Any, weights: Any, combiner: str) -> Tuple[Any, Any]:
    kept = tf.greater_equal(values.values, 0)
    if weights is None:
        return tf.sparse.retain(values, kept), None
    if combiner != "sum":
        kept = tf.logical_and(kept, tf.greater(weights.values, 0))
    return tf.sparse.retain(values, kept), tf.sparse.retain(weights, kept)


def sparse_ids(ids: LookupIds, values: tf.Tensor) -> tf.SparseTensor:
    """The ids, or their weights, as a SparseTensor."""
    if ids.layout == RAGGED:
        return tf.RaggedTensor.from_row_splits(values, ids.positions, validate=False).to_sparse()
    if ids.layout != DENSE:
        return tf.SparseTensor(ids.positions, values, ids.shape)
    matrix = values if values.shape.ndims == 2 else tf.expand_dims(values, 1)
    shape = tf.shape(matrix, out_type=tf.int64)
    everywhere = tf.where(tf.ones_like(matrix, tf.bool))
    return tf.SparseTensor(everywhere, tf.reshape(matrix, [-1]), shape)
