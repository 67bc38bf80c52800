"""What stands in place of `tf.feature_column.input_layer` where tables are sharded across ranks."""

from __future__ import annotations

import abc
import math
from typing import Any, List, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf


class TableOfColumn(NamedTuple):
    """A sharded table.

    Attributes:
      column: name of the feature that it embeds.
      variable: this rank's part, a variable of `graph_opt.sok`.
    """

    column: str
    variable: Any


class InputLayer(abc.ABC):
    """`tf.feature_column.input_layer` over tables that are sharded across ranks.

    Attributes:
      tables: the tables that have a variable each, in the order of their columns' results.
      variables: this rank's parts of all tables.
      keys: the number of ids of each column.
    """

    def __init__(self) -> None:
        self.tables: List[TableOfColumn] = []
        self.variables: List[Any] = []
        self.keys: List[tf.Tensor] = []

    def __call__(self, features: Any, columns: Sequence[Any]) -> tf.Tensor:
        """Looks up the embedding columns of the features, [B, sum of their widths]."""
        columns = sorted(columns, key=lambda column: column.name)  # as `input_layer` does
        ids = [_ids(features, column.categorical_column) for column in columns]
        self.keys = [tf.size(each.values, out_type=tf.int64) for each in ids]
        return tf.concat(self.look_up(columns, ids), axis=1)

    @abc.abstractmethod
    def look_up(self, columns: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> Sequence[Any]:
        """The pooled rows of each column, [B, width]."""


class ShardedInputLayer(InputLayer):
    """Each table is a `sok.Variable`."""

    def look_up(self, columns: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> Sequence[Any]:
        """See `InputLayer`."""
        from graph_opt import sok

        for column in columns:
            key, width = column.categorical_column.key, column.dimension
            variable = sok.Variable(
                shape=[column.categorical_column.num_buckets, width],
                initializer=initializer_of(width),
                name=key + "_table",
            )
            self.tables.append(TableOfColumn(key, variable))
            self.variables.append(variable)
        pooled: Sequence[Any] = sok.lookup_sparse(
            [table.variable for table in self.tables],
            ids,
            combiners=[column.combiner for column in columns],
        )
        return pooled


class LayerOfGraphOpt(InputLayer):
    """All tables are in one layer of `graph_opt.distributed_embeddings`."""

    def look_up(self, columns: Sequence[Any], ids: Sequence[tf.SparseTensor]) -> Sequence[Any]:
        """See `InputLayer`."""
        from graph_opt import distributed_embeddings

        layers = [
            distributed_embeddings.Embedding(
                column.categorical_column.num_buckets,
                column.dimension,
                embeddings_initializer=initializer_of(column.dimension),
                combiner=column.combiner,
            )
            for column in columns
        ]
        layer = distributed_embeddings.DistributedEmbedding(layers, name="tables")
        pooled: Sequence[Any] = layer(list(ids))
        self.variables.extend(layer.trainable_variables)
        return pooled


def initializer_of(width: int) -> Any:
    """As `tf.feature_column.embedding_column` starts its tables."""
    return tf.truncated_normal_initializer(stddev=1 / math.sqrt(width))


def _ids(features: Any, column: Any) -> tf.SparseTensor:
    """The ids of a categorical column, as the column itself would find them."""
    values = features[column.key]
    if not hasattr(column, "hash_bucket_size"):
        return values
    texts: Tuple[tf.Tensor, tf.Tensor] = _without_empty(values)
    hashed = tf.strings.to_hash_bucket_fast(texts[1], column.hash_bucket_size)
    return tf.SparseTensor(texts[0], hashed, tf.shape(values, out_type=tf.int64))


def _without_empty(texts: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    places = tf.where(tf.not_equal(texts, ""))
    return places, tf.gather_nd(texts, places)
