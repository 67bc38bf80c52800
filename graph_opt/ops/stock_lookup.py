"""A lookup of a group as TensorFlow's own ops do it."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import DENSE, RAGGED


class LookupIds(NamedTuple):
    """Ids and weights; graph_opt.ops.group_embedding tells what the layouts mean.

    Attributes:
      layout: sparse, ragged or dense.
      ids: int32 or int64.
      positions: int64.
      shape: int64.
      weights: float32 of the shape of `ids`, or None.
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
) -> tf.Tensor:
    """`tf.nn.safe_embedding_lookup_sparse` for ids and weights of any kind.

    Args:
      parts: Of the table.
      ids: Ids and weights.
      combiner: `sum`, `mean` or `sqrtn`.
      default_id: The row that a row without ids gives; None is zeros.
      partition_strategy: `mod` or `div`.
    """
    weights = None if ids.weights is None else sparse_ids(ids, ids.weights)
    return tf.nn.safe_embedding_lookup_sparse(
        parts,
        sparse_ids(ids, ids.ids),
        weights,
        combiner=combiner,
        default_id=default_id,
        partition_strategy=partition_strategy,
    )


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
