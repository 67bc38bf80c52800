"""DLRM: dense features and embeddings meet in dot products.

    counters [B, 13] ── bottom MLP ── [B, D] ─┐
                                              ├─ dot products of all pairs ─┬─ top MLP ── logit
    C1..C26 ── hash ── table ── mean ── [B, D]┘                             │
                                bottom MLP's output ────────────────────────┘

B rows in the batch, D embedding width, F = 27 vectors a row (26 embeddings and the bottom output).
Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems",
2019. The code is TensorFlow 1 as its users write it, and knows nothing of graph_opt.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from tools.bench.workloads.dlrm.criteo import COUNTERS
from tools.bench.workloads.dlrm.schema import CATEGORICALS

Embed = Callable[[Dict[str, tf.Tensor], Sequence[Any]], tf.Tensor]


class ModelOptions(NamedTuple):
    """Sizes of the model.

    `table_shards` > 1 splits every table; `resource_variables` chooses between TensorFlow's newer
    variables and the ref variables that TF1 makes by default. `dynamic` gives each id a row of its
    own, in tables that grow with them, in place of hashing ids into `buckets`; tables have at most
    `most_rows` rows, those of the ids that came last, 0 for any number. `initial_stddev` is that of
    new rows, None for TensorFlow's choice.
    """

    buckets: int = 100000
    dimension: int = 16
    bottom: Tuple[int, ...] = (512, 256, 64)
    top: Tuple[int, ...] = (512, 256)
    table_shards: int = 1
    resource_variables: bool = False
    dynamic: bool = False
    most_rows: int = 0
    initial_stddev: Optional[float] = None


def logits(
    features: Dict[str, tf.Tensor],
    options: ModelOptions,
    embed: Embed = tf.feature_column.input_layer,
) -> tf.Tensor:
    """The model's output before the sigmoid, [B, 1] float32.

    Args:
      features: as read by `criteo.batches`.
      options: sizes.
      embed: looks up the embedding columns of the features, [B, F - 1] * D.
    """
    shards = options.table_shards
    partitioner = tf.fixed_size_partitioner(shards) if shards > 1 else None
    with tf.variable_scope("dlrm", use_resource=options.resource_variables):
        with tf.variable_scope("tables", partitioner=partitioner):
            embeddings = embed(features, embedding_columns(options))
        sizes = options.bottom + (options.dimension,)
        bottom = multilayer_perceptron(features[COUNTERS], sizes, "bottom")
        products = pairwise_dot_products(bottom, embeddings, options.dimension)
        top = multilayer_perceptron(tf.concat([bottom, products], axis=1), options.top, "top")
        return tf.layers.dense(top, 1, name="logit")


def embedding_columns(options: ModelOptions) -> Sequence[object]:
    """One embedding column for each of C1..C26."""
    if options.dynamic:
        return _dynamic_columns(options)
    return [
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_hash_bucket(name, options.buckets),
            dimension=options.dimension,
            combiner="mean",
            initializer=_initializer(options),
        )
        for name in CATEGORICALS
    ]


def _dynamic_columns(options: ModelOptions) -> Sequence[object]:
    import graph_opt  # here, so that a stock run has nothing of it in its process

    evict = graph_opt.CapacityEvict(options.most_rows) if options.most_rows else None
    option = graph_opt.EmbeddingVariableOption(evict_option=evict)
    return [
        graph_opt.embedding_column(
            graph_opt.categorical_column_with_embedding(name, tf.string, ev_option=option),
            dimension=options.dimension,
            combiner="mean",
            initializer=_initializer(options),
        )
        for name in CATEGORICALS
    ]


def _initializer(options: ModelOptions) -> Any:
    if options.initial_stddev is None:
        return None
    return tf.truncated_normal_initializer(stddev=options.initial_stddev)


def multilayer_perceptron(inputs: tf.Tensor, sizes: Sequence[int], name: str) -> tf.Tensor:
    """Dense layers with ReLU, [B, ...] -> [B, sizes[-1]]."""
    with tf.variable_scope(name):
        for number, units in enumerate(sizes):
            inputs = tf.layers.dense(inputs, units, activation=tf.nn.relu, name=f"layer_{number}")
        return inputs


def pairwise_dot_products(bottom: tf.Tensor, embeddings: tf.Tensor, dimension: int) -> tf.Tensor:
    """Dot products of each pair of a row's F vectors, [B, F * (F - 1) / 2].

    Args:
      bottom: [B, D].
      embeddings: [B, (F - 1) * D].
      dimension: D.
    """
    count = 1 + int(embeddings.shape[1]) // dimension
    vectors = tf.reshape(tf.concat([bottom, embeddings], axis=1), [-1, count, dimension])
    products = tf.matmul(vectors, vectors, transpose_b=True)
    rows, columns = np.tril_indices(count, k=-1)
    flat = tf.reshape(products, [-1, count * count])
    return tf.gather(flat, rows * count + columns, axis=1)
