"""Converts the ids and weights of one lookup, whatever their kind, to what the group ops take."""

from __future__ import annotations

from typing import Any

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import DENSE, RAGGED, SPARSE
from graph_opt.ops.stock_lookup import LookupIds

ID_DTYPES = (tf.int32, tf.int64)


def read_ids(place: int, ids: Any, weights: Any) -> LookupIds:
    """Converts ids and weights, and checks what can be checked before the graph runs.

    Args:
      place: Number of the lookup, for errors.
      ids: SparseTensor, RaggedTensor or Tensor.
      weights: The same kind with the same shape, or None.

    Raises:
      TypeError: The kind or dtype is not supported.
      ValueError: The shape is not supported.
    """
    if isinstance(ids, (tf.SparseTensor, tf.SparseTensorValue)):
        return _read_sparse(place, ids, weights)
    if isinstance(ids, tf.RaggedTensor):
        return _read_ragged(place, ids, weights)
    try:
        dense = tf.convert_to_tensor(ids)
    except (TypeError, ValueError) as error:
        raise TypeError(
            "sp_ids[{}] is a {}; need a SparseTensor, a RaggedTensor or a Tensor".format(
                place, type(ids).__name__
            )
        ) from error
    return _read_dense(place, dense, weights)


def _read_sparse(place: int, ids: Any, weights: Any) -> LookupIds:
    ids = tf.convert_to_tensor_or_sparse_tensor(ids)
    _check_dtype(place, ids.values)
    values = None
    if weights is not None:
        if not isinstance(weights, (tf.SparseTensor, tf.SparseTensorValue)):
            raise _other_kind(place, "SparseTensor", weights)
        weights = tf.convert_to_tensor_or_sparse_tensor(weights)
        _check_shapes(place, ids.indices, weights.indices)
        values = _read_weights(place, ids.values, weights.values)
    return LookupIds(SPARSE, ids.values, ids.indices, ids.dense_shape, values)


def _read_ragged(place: int, ids: Any, weights: Any) -> LookupIds:
    if ids.ragged_rank != 1 or ids.flat_values.shape.ndims not in (None, 1):
        raise ValueError(
            "sp_ids[{}] is a RaggedTensor of shape {}; need [rows, (ids)]".format(place, ids.shape)
        )
    _check_dtype(place, ids.flat_values)
    values = None
    if weights is not None:
        if not isinstance(weights, tf.RaggedTensor):
            raise _other_kind(place, "RaggedTensor", weights)
        values = _read_weights(place, ids.flat_values, weights.flat_values)
    splits = tf.cast(ids.row_splits, tf.int64)
    return LookupIds(RAGGED, ids.flat_values, splits, _empty(), values)


def _read_dense(place: int, ids: tf.Tensor, weights: Any) -> LookupIds:
    _check_dtype(place, ids)
    if ids.shape.ndims not in (1, 2):
        raise ValueError(
            "sp_ids[{}] has shape {}; a Tensor of ids needs rank 1 or 2".format(place, ids.shape)
        )
    values = None
    if weights is not None:
        if isinstance(weights, (tf.SparseTensor, tf.SparseTensorValue, tf.RaggedTensor)):
            raise _other_kind(place, "Tensor", weights)
        values = _read_weights(place, ids, tf.convert_to_tensor(weights))
    return LookupIds(DENSE, ids, _empty(), _empty(), values)


def _read_weights(place: int, ids: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    if not weights.dtype.is_floating:
        raise TypeError(
            "sp_weights[{}] has dtype {}; need a floating-point type".format(
                place, weights.dtype.name
            )
        )
    _check_shapes(place, ids, weights)
    return tf.cast(weights, tf.float32)


def _check_dtype(place: int, ids: tf.Tensor) -> None:
    if ids.dtype not in ID_DTYPES:
        raise TypeError(
            "sp_ids[{}] has dtype {}; need int32 or int64".format(place, ids.dtype.name)
        )


def _check_shapes(place: int, ids: tf.Tensor, weights: tf.Tensor) -> None:
    if not ids.shape.is_compatible_with(weights.shape):
        raise ValueError(
            "sp_weights[{}] has shape {}, but its ids have {}; need one weight for each id".format(
                place, weights.shape, ids.shape
            )
        )


def _other_kind(place: int, kind: str, weights: Any) -> TypeError:
    return TypeError(
        "sp_weights[{}] is a {}, but its ids are a {}; need the same kind".format(
            place, type(weights).__name__, kind
        )
    )


def _empty() -> tf.Tensor:
    return tf.constant([], tf.int64)
