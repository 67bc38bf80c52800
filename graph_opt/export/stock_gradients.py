"""Gradients of a group lookup in TensorFlow's ops, for exported graphs that are trained again."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

from graph_opt.compat import tf
from graph_opt.ops.group_embedding import NO_DEFAULT, GroupAttributes
from graph_opt.ops.stock_lookup import LookupIds, sparse_ids


def row_gradients(
    attributes: GroupAttributes,
    lookups: Sequence[LookupIds],
    table_rows: tf.Tensor,
    gradients: Sequence[tf.Tensor],
) -> List[tf.Tensor]:
    """Like `group_embedding_gradient`: the indices of all shards, then their values.

    Args:
      attributes: The attributes of the group lookup.
      lookups: Its ids and weights.
      table_rows: int64 vector with the number of rows of each shard.
      gradients: The gradients of the pooled rows.
    """
    found = [_occurrences(attributes, i, ids, gradients[i]) for i, ids in enumerate(lookups)]
    indices: List[tf.Tensor] = []
    values: List[tf.Tensor] = []
    for table in range(len(attributes.table_shards)):
        readers = [i for i, read in enumerate(attributes.lookup_tables) if read == table]
        ids = tf.concat([found[i].ids for i in readers], 0)
        rows = tf.concat([found[i].gradients for i in readers], 0)
        shards = attributes.shards_of(table)
        count = table_rows[shards.start : shards.stop]
        parts = _partitioned(ids, count, attributes.strategy_of(table))
        for number in range(len(shards)):
            here = tf.where(tf.equal(parts.shard, number))[:, 0]
            shard_rows = _summed(tf.gather(parts.row, here), tf.gather(rows, here))
            indices.append(shard_rows.ids)
            values.append(tf.cast(shard_rows.gradients, gradients[readers[0]].dtype))
    return indices + values


def weight_gradients(
    pooled: Sequence[tf.Tensor], weights: Sequence[tf.Tensor], gradients: Sequence[tf.Tensor]
) -> List[tf.Tensor]:
    """Like `group_embedding_weights_gradient`, for rows that TensorFlow's ops have pooled."""
    found = tf.gradients(list(pooled), list(weights), list(gradients))
    return [
        tf.zeros_like(given) if gradient is None else tf.convert_to_tensor(gradient)
        for given, gradient in zip(weights, found)
    ]


class _Occurrences(NamedTuple):
    """Ids [K] and the float32 gradient of each one's row [K, D]."""

    ids: tf.Tensor
    gradients: tf.Tensor


class _ShardRows(NamedTuple):
    """The shard of each id, and its row in that shard."""

    shard: tf.Tensor
    row: tf.Tensor


def _occurrences(
    attributes: GroupAttributes, lookup: int, ids: LookupIds, gradient: tf.Tensor
) -> _Occurrences:
    combiner = attributes.combiners[lookup]
    sparse = _by_bag(sparse_ids(ids, tf.cast(ids.ids, tf.int64)))
    weights = None if ids.weights is None else _by_bag(sparse_ids(ids, ids.weights))
    factors = tf.ones_like(sparse.values, tf.float32) if weights is None else weights.values
    keep = sparse.values >= 0  # Negative ids are errors if the lookup is not safe.
    if weights is not None and combiner != "sum" and attributes.safe:
        keep = tf.logical_and(keep, factors > 0)
    kept, factors = tf.sparse.retain(sparse, keep), tf.boolean_mask(factors, keep)
    bags, values = kept.indices[:, 0], kept.values
    default = attributes.default_ids[lookup]
    filled = attributes.filled_ids[lookup] if attributes.filled_ids else NO_DEFAULT
    if max(default, filled) != NO_DEFAULT:
        empty = _empty_bags(bags, sparse.dense_shape[0])
        one = 0.0 if default == NO_DEFAULT else 1.0
        bags = tf.concat([bags, empty], 0)
        values = tf.concat([values, tf.fill(tf.shape(empty), _int64(max(default, filled)))], 0)
        factors = tf.concat([factors, tf.fill(tf.shape(empty), one)], 0)
    scale = _scale(combiner, factors, bags, sparse.dense_shape[0])
    width = gradient.shape[-1]
    per_bag = tf.reshape(tf.cast(gradient, tf.float32), [-1, width])
    return _Occurrences(values, tf.gather(per_bag, bags) * tf.expand_dims(scale, 1))


def _by_bag(sparse: tf.SparseTensor) -> tf.SparseTensor:
    """[bags, ids of a bag], whatever the rank was."""
    return tf.sparse.reshape(sparse, tf.stack([_int64(-1), sparse.dense_shape[-1]]))


def _empty_bags(bags: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    ids_in = tf.unsorted_segment_sum(tf.ones_like(bags), bags, count)
    return tf.where(tf.equal(ids_in, 0))[:, 0]


def _scale(combiner: str, factors: tf.Tensor, bags: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    """How much each occurrence counts in its bag."""
    if combiner == "sum":
        return factors
    if combiner == "mean":
        whole = tf.unsorted_segment_sum(factors, bags, count)
    else:
        whole = tf.sqrt(tf.unsorted_segment_sum(tf.square(factors), bags, count))
    return tf.div_no_nan(factors, tf.gather(whole, bags))


def _partitioned(ids: tf.Tensor, rows: tf.Tensor, partition_strategy: str) -> _ShardRows:
    """Partitions ids as `tf.nn.embedding_lookup` does."""
    shards = tf.size(rows, out_type=tf.int64)
    if partition_strategy == "mod":
        return _ShardRows(tf.math.floormod(ids, shards), tf.math.floordiv(ids, shards))
    total = tf.reduce_sum(rows)
    each, longer = tf.math.floordiv(total, shards), tf.math.floormod(total, shards)
    in_longer = ids < longer * (each + 1)
    shard = tf.where(
        in_longer,
        tf.math.floordiv(ids, each + 1),
        tf.math.floordiv(ids - longer, tf.maximum(each, 1)),
    )
    first = shard * each + tf.minimum(shard, longer)
    return _ShardRows(shard, ids - first)


def _summed(ids: tf.Tensor, gradients: tf.Tensor) -> _Occurrences:
    """Each row once, ascending."""
    order = tf.argsort(ids, stable=True)
    unique, place = tf.unique(tf.gather(ids, order))
    sums = tf.unsorted_segment_sum(tf.gather(gradients, order), place, tf.size(unique))
    return _Occurrences(unique, sums)


def _int64(number: int) -> tf.Tensor:
    return tf.constant(number, tf.int64)
