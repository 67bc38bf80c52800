"""Sequences of ids: each id becomes a bag of one, and each gap an empty bag."""

from __future__ import annotations

from typing import Any, Tuple

from graph_opt.compat import tf


def steps_as_bags(place: int, ids: Any, weights: Any) -> Tuple[Any, Any]:
    """Ids [B, T] as a SparseTensor [B, T, 1], and weights likewise.

    A SparseTensor of more than two dimensions already is a sequence of bags.

    Args:
      place: Number of the lookup, for errors.
      ids: SparseTensor, RaggedTensor or Tensor.
      weights: The same kind with the same shape, or None.

    Raises:
      ValueError: A Tensor is not a matrix.
    """
    return _steps(place, ids), None if weights is None else _steps(place, weights)


def _steps(place: int, ids: Any) -> Any:
    if isinstance(ids, (tf.SparseTensor, tf.SparseTensorValue)):
        sparse = tf.convert_to_tensor_or_sparse_tensor(ids)
        rank = sparse.shape.rank
        return sparse if rank is not None and rank > 2 else tf.sparse.expand_dims(sparse, -1)
    if isinstance(ids, tf.RaggedTensor):
        return tf.sparse.expand_dims(ids.to_sparse(), -1)
    dense = tf.convert_to_tensor(ids)
    if dense.shape.ndims != 2:
        raise ValueError(
            "sp_ids[{}] has shape {}; with is_sequence a Tensor of ids needs rank 2, "
            "[rows, steps]".format(place, dense.shape)
        )
    shape = tf.shape(dense, out_type=tf.int64)
    indices = tf.where(tf.ones_like(dense, tf.bool))
    sparse = tf.SparseTensor(indices, tf.reshape(dense, [-1]), shape)
    return tf.sparse.expand_dims(sparse, -1)
