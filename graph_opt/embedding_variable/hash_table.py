"""DeepRec's `tf.hash_table`: tables by key, over dynamic tables."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

from graph_opt.compat import tf
from graph_opt.embedding_variable.get_embedding_variable import get_embedding_variable
from graph_opt.embedding_variable.lookups import embedding_lookup

__all__ = ["DistributedHashTable", "FixedSizeHashTablePartitioner"]


class FixedSizeHashTablePartitioner:
    """Divides a table into a number of parts; also a partitioner of TensorFlow's variables.

    Args:
      num_shards: Number of parts; > 0.
    """

    def __init__(self, num_shards: int) -> None:
        if num_shards < 1:
            raise ValueError(
                "FixedSizeHashTablePartitioner: num_shards is {}; need 1 or more".format(num_shards)
            )
        self.num_shards = int(num_shards)

    def __call__(self, shape: Any, **others: Any) -> List[int]:
        """The number of parts along each axis."""
        ones: List[int] = [1] * (tf.TensorShape(shape).rank - 1)
        return [self.num_shards, *ones]


class DistributedHashTable:
    """A table that has a value of some shape for each key that came.

    It is an EmbeddingVariable of the same name: optimizers train it, and checkpoints have it.

    Args:
      shape: Of each value; dimensions are known.
      dtype: tf.float32.
      initializer: Of values, as for `get_embedding_variable`.
      partitioner: As for `tf.get_variable`, or a `FixedSizeHashTablePartitioner`.
      name: Of the table; `hash_table` by default.

    Attributes:
      variable: The EmbeddingVariable.

    Raises:
      ValueError: An option is not supported.

    Example:
      >>> parts = tf.hash_table.FixedSizeHashTablePartitioner(2)
      >>> users = tf.hash_table.DistributedHashTable([16], tf.float32, partitioner=parts)
      >>> rows = users.lookup(user_ids)
    """

    def __init__(
        self,
        shape: Sequence[int],
        dtype: Any,
        initializer: Any = None,
        partitioner: Any = None,
        name: Optional[str] = None,
    ) -> None:
        self.shape = tf.TensorShape(shape)
        width = self.shape.num_elements()
        if not self.shape.rank or not width:
            raise ValueError(
                "DistributedHashTable: shape is {}; need known dimensions".format(self.shape)
            )
        self.variable = get_embedding_variable(
            name or "hash_table",
            width,
            value_dtype=dtype,
            initializer=initializer,
            partitioner=partitioner,
        )

    @property
    def name(self) -> str:
        """Of the table."""
        return str(self.variable.name)

    def lookup(self, keys: Any, name: Optional[str] = None) -> tf.Tensor:
        """The values of keys; new keys get one.

        Args:
          keys: Integers of any shape.
          name: Name of the node.

        Returns:
          Of the shape of `keys`, and that of a value.
        """
        keys = tf.cast(keys, tf.int64)
        rows = embedding_lookup(self.variable, keys, name=name)
        if self.shape.rank == 1:
            return rows
        values = tf.reshape(rows, tf.concat([tf.shape(keys), self.shape.as_list()], 0))
        values.set_shape(keys.shape.concatenate(self.shape))
        return values
