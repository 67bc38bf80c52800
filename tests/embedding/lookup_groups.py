"""Random groups of lookups for tests: the same ids given to graph_opt and to stock TensorFlow."""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional

import numpy as np

from graph_opt.compat import tf
from tests.plain_sessions import plain_session


class IdBags(NamedTuple):
    """Ids and weights by row, as lists of different lengths."""

    ids: List[List[int]]
    weights: List[List[float]]

    def sparse(self, dtype: Any = tf.int64) -> tf.SparseTensor:
        """The ids as a SparseTensor [rows, longest row]."""
        return self._sparse([i for row in self.ids for i in row], dtype)

    def sparse_weights(self) -> tf.SparseTensor:
        """The weights as a SparseTensor [rows, longest row]."""
        return self._sparse([w for row in self.weights for w in row], tf.float32)

    def shuffled(self, dtype: Any = tf.int64) -> tf.SparseTensor:
        """Like `sparse`, but not in row order."""
        return self._shuffled(self.sparse(dtype))

    def shuffled_weights(self) -> tf.SparseTensor:
        """The weights in the order of `shuffled`."""
        return self._shuffled(self.sparse_weights())

    def ragged(self, dtype: Any = tf.int64) -> tf.RaggedTensor:
        """The ids as a RaggedTensor [rows, (ids)]."""
        values = tf.constant([i for row in self.ids for i in row], dtype)
        lengths = tf.constant([len(row) for row in self.ids], tf.int64)
        return tf.RaggedTensor.from_row_lengths(values, lengths)

    def ragged_weights(self) -> tf.RaggedTensor:
        """The weights as a RaggedTensor [rows, (ids)]."""
        values = tf.constant([w for row in self.weights for w in row], tf.float32)
        lengths = tf.constant([len(row) for row in self.ids], tf.int64)
        return tf.RaggedTensor.from_row_lengths(values, lengths)

    def dense(self, dtype: Any = tf.int64) -> tf.Tensor:
        """The ids as a Tensor [rows, longest row], padded with -1."""
        width = max([len(row) for row in self.ids] + [0])
        filled = [row + [-1] * (width - len(row)) for row in self.ids]
        return tf.constant(np.array(filled, np.int64).reshape(len(self.ids), width), dtype)

    def _shuffled(self, sparse: tf.SparseTensor) -> tf.SparseTensor:
        order = np.random.RandomState(5).permutation(sum(len(row) for row in self.ids))
        indices = tf.gather(sparse.indices, order)
        return tf.SparseTensor(indices, tf.gather(sparse.values, order), sparse.dense_shape)

    def _sparse(self, values: List[Any], dtype: Any) -> tf.SparseTensor:
        indices = [[row, at] for row, ids in enumerate(self.ids) for at in range(len(ids))]
        shape = [len(self.ids), max([len(row) for row in self.ids] + [1])]
        return tf.SparseTensor(
            np.array(indices, np.int64).reshape(-1, 2), tf.constant(values, dtype), shape
        )


def random_bags(random: np.random.RandomState, rows: int, ids: int, longest: int = 5) -> IdBags:
    """Bags with duplicates, empty rows, ids < 0, and weights <= 0.

    Args:
      random: Source of randomness.
      rows: Number of bags.
      ids: Upper bound of the ids; some are -1.
      longest: Maximum number of ids in most bags; a few are four times as long.
    """
    bags = []
    for _ in range(rows):
        most = longest * 4 if random.rand() < 0.1 else longest
        bags.append(random.randint(-1, ids, random.randint(0, most + 1)).tolist())
    weights = [np.round(random.uniform(-0.5, 2.0, len(bag)), 3).tolist() for bag in bags]
    return IdBags(bags, weights)


def table(
    name: str,
    rows: int,
    width: int,
    use_resource: bool,
    partitions: int = 1,
    dtype: Any = tf.float32,
) -> Any:
    """A variable with random rows, partitioned when `partitions` > 1."""
    partitioner: Optional[Any] = None
    if partitions > 1:
        partitioner = tf.fixed_size_partitioner(partitions)
    return tf.get_variable(
        name,
        [rows, width],
        dtype=dtype,
        initializer=tf.random_normal_initializer(seed=len(name) + rows),
        partitioner=partitioner,
        use_resource=use_resource,
    )


def in_session(fetches: Any) -> Any:
    """Values of the fetches once all variables are initialized."""
    with plain_session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)
