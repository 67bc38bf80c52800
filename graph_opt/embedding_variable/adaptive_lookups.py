"""DeepRec's adaptive lookups: rows of some ids are in a small table, of others in one by key."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.embedding_variable.lookups import as_matrix, embedding_lookup

_COMBINERS = ("mean", "sqrtn", "sum")


def stitched_rows(
    shared: Any,
    own: Any,
    ids: Sequence[tf.Tensor],
    starts: tf.Tensor,
    places: Sequence[tf.Tensor],
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
) -> tf.Tensor:
    """The rows of two tables in the order of their ids, [ids, D].

    Args:
      shared: The table of rows that ids share.
      own: The EmbeddingVariable of the others, whose new rows start as the shared ones.
      ids: Those of the first and of the second table.
      starts: For each id of the second, the shared row that its row starts as.
      places: Of the first and of the second table's ids in the result.
      partition_strategy: Of the first table.
      max_norm: Of both.
    """
    start = embedding_lookup(shared, starts, partition_strategy, max_norm=max_norm)
    rows = [
        embedding_lookup(shared, ids[0], partition_strategy, max_norm=max_norm),
        embedding_lookup(own, ids[1], max_norm=max_norm, ev_init_value=tf.stop_gradient(start)),
    ]
    return tf.dynamic_stitch(places, rows)


def adaptive_embedding_lookup_sparse(
    hash_params: Any,
    ev_params: Any,
    sp_ids: tf.SparseTensor,
    hash_ev_ids: Any,
    sp_weights: None,
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    combiner: Optional[str] = None,
    max_norm: Optional[float] = None,
    bucket_size: Any = None,
    adaptive_mask_tensor: Any = None,
    blocknums: Any = None,
) -> tf.Tensor:
    """Looks each id up in one of two tables: a variable, or an EmbeddingVariable.

    Args:
      hash_params: A variable; see `tf.nn.embedding_lookup`.
      ev_params: An EmbeddingVariable.
      sp_ids: SparseTensor with K ids: rows of the one, keys of the other.
      hash_ev_ids: For each id of the EmbeddingVariable, in order, the row of the variable that its
        row starts as, if it is new. That row gets no gradient by it.
      sp_weights: None.
      partition_strategy: Of the variable; see `tf.nn.embedding_lookup`.
      name: Of the name scope.
      combiner: Without effect, as in DeepRec: rows are not combined.
      max_norm: See `tf.nn.embedding_lookup`.
      bucket_size: Without effect, as in DeepRec.
      adaptive_mask_tensor: [K], integers: 0 for ids of the variable, 1 for the others.
      blocknums: Without effect, as in DeepRec.

    Returns:
      The rows of the ids, [K, D].

    Raises:
      TypeError: `sp_ids` is no SparseTensor.
      ValueError: There are weights or no mask, or the combiner is not `mean`, `sqrtn` or `sum`.

    Example:
      >>> rows = tf.nn.adaptive_embedding_lookup_sparse(
      ...     buckets, users, ids, [2], None, adaptive_mask_tensor=[0, 1, 0]
      ... )
    """
    del bucket_size, blocknums
    mask = _checked(sp_ids, sp_weights, combiner, adaptive_mask_tensor)
    with tf.name_scope(name, "embedding_lookup_sparse"):
        return _rows_of(
            hash_params, ev_params, sp_ids.values, hash_ev_ids, mask, partition_strategy, max_norm
        )


def safe_adaptive_embedding_lookup_sparse(
    hash_embedding_weights: Any,
    ev_embedding_weights: Any,
    sparse_ids: tf.SparseTensor,
    hash_ev_ids: Any,
    sparse_weights: None = None,
    combiner: Optional[str] = None,
    default_id: Optional[int] = None,
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
    bucket_size: Any = None,
    adaptive_mask_tensor: Any = None,
    blocknums: Any = None,
) -> tf.Tensor:
    """`adaptive_embedding_lookup_sparse` of a batch, whose rows have one id each, or none.

    Args:
      hash_embedding_weights: As `hash_params` there.
      ev_embedding_weights: As `ev_params` there.
      sparse_ids: SparseTensor [d0, ..., dn] with at most one id along the last dimension; one below
        0 counts as none.
      hash_ev_ids: As there, of ids that count.
      sparse_weights: None.
      combiner: Without effect, as in DeepRec.
      default_id: The row of the variable for what has no id; None for zeros.
      name: Of the name scope.
      partition_strategy: As there.
      max_norm: As there.
      bucket_size: Without effect, as in DeepRec.
      adaptive_mask_tensor: [d0 · ... · d(n-1)], integers: 0 where the id is a row of the variable,
        1 where it is a key.
      blocknums: Without effect, as in DeepRec.

    Returns:
      [d0, ..., d(n-1), D].

    Raises:
      TypeError: `sparse_ids` is no SparseTensor.
      ValueError: There are weights or no mask, or the combiner is not `mean`, `sqrtn` or `sum`.

    Example:
      >>> ids = tf.sparse.from_dense([[4], [900], [2]])
      >>> rows = tf.nn.safe_adaptive_embedding_lookup_sparse(
      ...     buckets, users, ids, [2], adaptive_mask_tensor=[0, 1, 0]
      ... )
    """
    del bucket_size, blocknums
    mask = _checked(sparse_ids, sparse_weights, combiner, adaptive_mask_tensor)
    with tf.name_scope(name, "embedding_lookup"):
        shape = sparse_ids.dense_shape
        matrix = as_matrix(sparse_ids)
        ids = tf.sparse.retain(matrix, tf.greater_equal(matrix.values, 0))
        if default_id is not None:
            ids, is_empty = tf.sparse.fill_empty_rows(ids, default_id)
            mask = tf.where_v2(is_empty, tf.zeros_like(mask), mask)
        places = ids.indices[:, 0]
        rows = _rows_of(
            hash_embedding_weights,
            ev_embedding_weights,
            ids.values,
            hash_ev_ids,
            tf.gather(mask, places),
            partition_strategy,
            max_norm,
        )
        width = tf.shape(rows, out_type=tf.int64)[1:]
        of_all = tf.concat([ids.dense_shape[:1], width], 0)
        result = tf.scatter_nd(tf.expand_dims(places, 1), rows, of_all)
        result = tf.reshape(result, tf.concat([shape[:-1], width], 0))
        result.set_shape(sparse_ids.shape[:-1].concatenate(rows.shape[1:]))
        return result


def _rows_of(
    shared: Any,
    own: Any,
    ids: tf.Tensor,
    starts: Any,
    mask: tf.Tensor,
    partition_strategy: str,
    max_norm: Optional[float],
) -> tf.Tensor:
    places = tf.dynamic_partition(tf.range(tf.size(ids)), mask, 2)
    return stitched_rows(
        shared,
        own,
        tf.dynamic_partition(ids, mask, 2),
        tf.convert_to_tensor(starts),
        places,
        partition_strategy,
        max_norm,
    )


def _checked(ids: Any, weights: Any, combiner: Optional[str], mask: Any) -> tf.Tensor:
    if not isinstance(ids, tf.SparseTensor):
        raise TypeError(
            "adaptive lookup: ids are a {}; need a SparseTensor".format(type(ids).__name__)
        )
    if weights is not None or mask is None:
        raise ValueError("adaptive lookup: need adaptive_mask_tensor, and no weights")
    if combiner is not None and combiner not in _COMBINERS:
        raise ValueError(
            "adaptive lookup: combiner is {!r}; need one of {}".format(
                combiner, ", ".join(_COMBINERS)
            )
        )
    return tf.cast(mask, tf.int32)
