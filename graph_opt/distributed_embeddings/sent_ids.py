"""Ids of any kind as one message of int64, and back."""

from __future__ import annotations

from typing import Any, List, Sequence

from graph_opt.compat import tf


def sent_ids(inputs: Sequence[Any]) -> tf.Tensor:
    """int64: dense, ragged and sparse ids, one after another, each behind its sizes."""
    parts: List[tf.Tensor] = [tf.zeros([0], tf.int64)]
    for ids in inputs:
        if isinstance(ids, tf.RaggedTensor):
            parts += [ids.nrows(tf.int64)[tf.newaxis], ids.row_lengths(), ids.flat_values]
        elif isinstance(ids, tf.SparseTensor):
            count = tf.size(ids.values, out_type=tf.int64)[tf.newaxis]
            parts += [count, ids.dense_shape, ids.indices, ids.values]
        else:
            parts += [tf.shape(ids), ids]
    return tf.concat([tf.reshape(tf.cast(part, tf.int64), [-1]) for part in parts], axis=0)


def read_ids_of_all(message: tf.Tensor, kinds: Sequence[Any], num_ranks: int) -> List[List[Any]]:
    """What all ranks sent with `sent_ids`, rank after rank.

    Args:
      message: int64.
      kinds: Ids of the same kinds and dtypes as those that each rank has sent.
      num_ranks: Number of ranks.
    """
    reader = _Reader(message)
    return [[reader.ids_like(kind) for kind in kinds] for _ in range(num_ranks)]


class _Reader:
    def __init__(self, message: tf.Tensor) -> None:
        self._message = message
        self._next = tf.constant(0, tf.int64)

    def ids_like(self, kind: Any) -> Any:
        if isinstance(kind, tf.RaggedTensor):
            lengths = self._take(self._take(1)[0])
            values = self._take(tf.reduce_sum(lengths))
            return tf.RaggedTensor.from_row_lengths(tf.cast(values, kind.dtype), lengths)
        if isinstance(kind, tf.SparseTensor):
            count = self._take(1)[0]
            shape = self._take(2)
            indices = tf.reshape(self._take(2 * count), [-1, 2])
            return tf.SparseTensor(indices, tf.cast(self._take(count), kind.dtype), shape)
        shape = self._take(kind.shape.rank)
        ids = tf.reshape(tf.cast(self._take(tf.reduce_prod(shape)), kind.dtype), shape)
        ids.set_shape([None] + kind.shape.as_list()[1:])
        return ids

    def _take(self, count: Any) -> tf.Tensor:
        end = self._next + tf.cast(count, tf.int64)
        taken = self._message[self._next : end]
        self._next = end
        return taken
