"""DeepRec's lookups of ids in several dimensions, which have a combiner for each."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Tuple, Union

from graph_opt.compat import tf
from graph_opt.embedding_variable.lookups import (
    embedding_lookup,
    embedding_lookup_sparse,
    numbered,
    pruned,
    whole,
)

_POOLED = ("mean", "sqrtn", "sum")
_COMBINERS = (*_POOLED, "max", "min", "tile")
_Combiners = Union[str, Sequence[str], None]


def embedding_lookup_sparse_multi_dim(
    params: Any,
    sp_ids: tf.SparseTensor,
    sp_weights: Optional[tf.SparseTensor],
    partition_strategy: str = "mod",
    name: Optional[str] = None,
    combiners: _Combiners = None,
    max_norm: Optional[float] = None,
    weight_axis: Optional[int] = -1,
) -> tf.Tensor:
    """Looks ids in several dimensions up, and combines their rows along one after the other.

    The rows [D] of ids [B, d1, ..., dn] are combined along the last dimension first. What has no
    ids is left out there, so that a mean is one of the others.

    Args:
      params: As for `tf.nn.embedding_lookup`.
      sp_ids: SparseTensor [B, d1, ..., dn] of a known rank, in row-major order.
      sp_weights: None, or a SparseTensor with the weights of the ids at the same places. Rows are
        multiplied by them.
      partition_strategy: As for `tf.nn.embedding_lookup`.
      name: Of the name scope.
      combiners: For each of d1 to dn `mean`, `sqrtn`, `sum`, `max`, `min`, or `tile`, which puts
        rows side by side, with zeros where there are none. None is `mean` for one dimension.
      max_norm: As for `tf.nn.embedding_lookup`.
      weight_axis: The dimension along which `mean` and `sqrtn` divide by weights; along others they
        divide by numbers of rows. Of an outer dimension, a weight is the mean of those it has.

    Returns:
      [B, D], or [B, D · T] where T is the product of the dimensions with `tile`. Rows of the batch
      without ids are zeros.

    Raises:
      TypeError: `sp_ids` or `sp_weights` is no SparseTensor.
      ValueError: A combiner is none of those, their number is not that of the dimensions, or there
        is no such `weight_axis`.

    Example:
      >>> words = tf.sparse.from_dense([[[1, 2], [3, 0]], [[2, 0], [0, 0]]])  # of two sentences
      >>> rows = tf.nn.embedding_lookup_sparse_multi_dim(
      ...     table, words, None, combiners=["max", "mean"]
      ... )
    """
    _check_sparse("sp_ids", sp_ids)
    if sp_weights is not None:
        _check_sparse("sp_weights", sp_weights)
    chosen = _checked(combiners)
    rank = sp_ids.shape.rank
    if rank != len(chosen) + 1:
        raise ValueError(
            "embedding_lookup_sparse_multi_dim: sp_ids has rank {}, with {} combiners; need one "
            "for each dimension after the first".format(rank, len(chosen))
        )
    axis = _axis(weight_axis, rank)
    how = _How(whole(params), partition_strategy, max_norm)
    with tf.name_scope(name, "embedding_lookup_sparse"):
        level = _Level(sp_ids.indices, None if sp_weights is None else sp_weights.values)
        rows: Any = None
        for number in range(rank - 1, 0, -1):
            bags = _bags(level.places, sp_ids, number)
            combiner, is_weighted = chosen[number - 1], number == axis
            if rows is None and combiner in _POOLED:
                rows = _pooled(how, sp_ids.values, level, bags, combiner, is_weighted)
            else:
                rows = _rows_of(how, sp_ids.values, level.weights) if rows is None else rows
                rows = _combined(rows, level, bags, combiner, is_weighted)
            level = _outer(level, bags)
        shape = tf.concat([sp_ids.dense_shape[:1], tf.shape(rows, out_type=tf.int64)[1:]], 0)
        result = tf.scatter_nd(level.places, rows, shape)
        result.set_shape(sp_ids.shape[:1].concatenate(rows.shape[1:]))
        return result


def safe_embedding_lookup_multi_dim(
    embedding_weights: Any,
    sparse_ids: tf.SparseTensor,
    sparse_weights: Optional[tf.SparseTensor] = None,
    combiners: _Combiners = ("mean",),
    name: Optional[str] = None,
    partition_strategy: str = "div",
    max_norm: Optional[float] = None,
    weight_axis: int = 1,
    prune: bool = True,
) -> tf.Tensor:
    """`embedding_lookup_sparse_multi_dim` that drops invalid ids, and keeps outer dimensions.

    Args:
      embedding_weights: As for `tf.nn.embedding_lookup`.
      sparse_ids: SparseTensor [d0, ..., dn] of a known rank, in row-major order.
      sparse_weights: As `sp_weights` of `embedding_lookup_sparse_multi_dim`.
      combiners: As there, of the last dimensions; those before stay.
      name: Of the name scope.
      partition_strategy: As for `tf.nn.embedding_lookup`.
      max_norm: As for `tf.nn.embedding_lookup`.
      weight_axis: As there, counted from `d0`, which is 0.
      prune: Whether to drop ids below 0 and, unless a combiner is `sum`, weights not above 0.

    Returns:
      [d0, ..., dm, D], where m is n less the number of combiners; D times the product of those
      dimensions that have `tile`. What has no ids is zeros.

    Raises:
      TypeError: `sparse_ids` or `sparse_weights` is no SparseTensor.
      ValueError: There is no table, a combiner is none of those, there are more than dimensions
        after the first, or there is no such `weight_axis`.

    Example:
      >>> words = tf.sparse.from_dense([[[1, 2], [3, 0]], [[2, 0], [0, 0]]])
      >>> of_sentences = tf.nn.safe_embedding_lookup_multi_dim(table, words)  # [2, 2, D]
    """
    if embedding_weights is None or (isinstance(embedding_weights, list) and not embedding_weights):
        raise ValueError("safe_embedding_lookup_multi_dim: embedding_weights is missing")
    _check_sparse("sparse_ids", sparse_ids)
    inner = _checked(combiners)
    kept = (sparse_ids.shape.rank or 0) - len(inner)
    outer = ("tile",) * (kept - 1)
    shape, static = sparse_ids.dense_shape, sparse_ids.shape
    with tf.name_scope(name, "embedding_lookup"):
        ids, weights = numbered(sparse_ids, whole(embedding_weights)), sparse_weights
        if prune:
            values = None if weights is None else weights.values
            # A sum with weights below 0 is one, a mean with them is none.
            ids, values = pruned(ids, values, "sum" if "sum" in inner else "mean")
            weights = None if values is None else tf.SparseTensor(ids.indices, values, shape)
        rows = embedding_lookup_sparse_multi_dim(
            embedding_weights,
            ids,
            weights,
            partition_strategy,
            None,
            outer + inner,
            max_norm,
            weight_axis,
        )
        if not outer:
            return rows
        result = tf.reshape(rows, tf.concat([tf.cast(shape[:kept], tf.int32), [-1]], 0))
        result.set_shape(static[:kept].concatenate([None]))
        return result


class _How(NamedTuple):
    """How rows are looked up."""

    table: Any
    partition_strategy: str
    max_norm: Optional[float]


class _Level(NamedTuple):
    """The places of rows that are to be combined along the last dimension, and their weights."""

    places: tf.Tensor
    weights: Optional[tf.Tensor]


class _Bags(NamedTuple):
    """Which rows are combined into one.

    Attributes:
      of: For each row the number of its bag, in ascending order.
      count: The number of bags, none of which is empty.
      size: How many rows a bag may have, also statically.
    """

    of: tf.Tensor
    count: tf.Tensor
    size: tf.Tensor
    static_size: Optional[int]


def _bags(places: tf.Tensor, ids: tf.SparseTensor, axis: int) -> _Bags:
    """Puts those into one bag that differ along an axis alone, the last one of their places."""
    of = places[:, 0]
    for number in range(1, axis):
        of = of * ids.dense_shape[number] + places[:, number]
    different, of = tf.unique(of)
    return _Bags(of, tf.size(different), ids.dense_shape[axis], tf.dimension_value(ids.shape[axis]))


def _outer(level: _Level, bags: _Bags) -> _Level:
    """The level of the bags."""
    places = tf.math.segment_max(level.places[:, :-1], bags.of)
    weights = level.weights
    return _Level(places, None if weights is None else tf.math.segment_mean(weights, bags.of))


def _pooled(
    how: _How, ids: tf.Tensor, level: _Level, bags: _Bags, combiner: str, is_weighted: bool
) -> tf.Tensor:
    """Looks up and combines in TensorFlow's own function, which the passes know as one lookup."""
    places = tf.stack([tf.cast(bags.of, tf.int64), level.places[:, -1]], 1)
    shape = tf.stack([tf.cast(bags.count, tf.int64), bags.size])
    weights = None if level.weights is None else tf.SparseTensor(places, level.weights, shape)
    by_count = weights is not None and not is_weighted and combiner != "sum"
    total = embedding_lookup_sparse(
        how.table,
        tf.SparseTensor(places, ids, shape),
        weights,
        how.partition_strategy,
        combiner="sum" if by_count else combiner,
        max_norm=how.max_norm,
    )
    return total / _divisor(None, bags, combiner, total.dtype) if by_count else total


def _rows_of(how: _How, ids: tf.Tensor, weights: Optional[tf.Tensor]) -> tf.Tensor:
    rows = embedding_lookup(how.table, ids, how.partition_strategy, max_norm=how.max_norm)
    return rows if weights is None else rows * tf.expand_dims(tf.cast(weights, rows.dtype), 1)


def _combined(
    rows: tf.Tensor, level: _Level, bags: _Bags, combiner: str, is_weighted: bool
) -> tf.Tensor:
    if combiner == "max":
        return tf.math.segment_max(rows, bags.of)
    if combiner == "min":
        return tf.math.segment_min(rows, bags.of)
    if combiner == "tile":
        return _tiled(rows, level.places[:, -1], bags)
    total = tf.math.segment_sum(rows, bags.of)
    if combiner == "sum":
        return total
    weights = level.weights if is_weighted else None
    return total / _divisor(weights, bags, combiner, total.dtype)


def _divisor(weights: Optional[tf.Tensor], bags: _Bags, combiner: str, dtype: Any) -> tf.Tensor:
    """What `mean` and `sqrtn` divide sums by, [bags, 1]; without weights, all are 1."""
    weights = tf.ones_like(bags.of, dtype) if weights is None else tf.cast(weights, dtype)
    if combiner == "mean":
        return tf.expand_dims(tf.math.segment_sum(weights, bags.of), 1)
    return tf.expand_dims(tf.sqrt(tf.math.segment_sum(tf.square(weights), bags.of)), 1)


def _tiled(rows: tf.Tensor, places: tf.Tensor, bags: _Bags) -> tf.Tensor:
    size = tf.cast(bags.size, tf.int32)
    width = tf.dimension_value(rows.shape[1])
    spread = tf.math.unsorted_segment_sum(
        rows, bags.of * size + tf.cast(places, tf.int32), bags.count * size
    )
    tiled = tf.reshape(spread, tf.stack([bags.count, size * tf.shape(rows)[1]]))
    if width is not None and bags.static_size is not None:
        tiled.set_shape([None, width * bags.static_size])
    return tiled


def _checked(combiners: _Combiners) -> Tuple[str, ...]:
    chosen = ("mean",) if combiners is None else combiners
    chosen = (chosen,) if isinstance(chosen, str) else tuple(chosen)
    for combiner in chosen:
        if combiner not in _COMBINERS:
            raise ValueError(
                "combiner is {!r}; need one of {}".format(combiner, ", ".join(_COMBINERS))
            )
    return chosen


def _check_sparse(argument: str, value: Any) -> None:
    if not isinstance(value, tf.SparseTensor):
        raise TypeError("{} is a {}; need a SparseTensor".format(argument, type(value).__name__))


def _axis(weight_axis: Optional[int], rank: int) -> int:
    axis = -1 if weight_axis is None else weight_axis
    axis = axis + rank if axis < 0 else axis
    if not 0 < axis < rank:
        raise ValueError(
            "weight_axis is {}; need one of the dimensions after the first, of {}".format(
                weight_axis, rank
            )
        )
    return axis
