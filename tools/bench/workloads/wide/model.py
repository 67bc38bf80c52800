"""A small network over many multi-hot columns.

    column_000 .. column_199 ── table ── mean ── [B, D] each ── concat ── MLP ── logit

B rows in the batch, D embedding width. TensorFlow 1 as its users write it; knows no graph_opt.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.workloads.wide.data import DataOptions, column_names

Embed = Callable[[Dict[str, tf.SparseTensor], Sequence[Any]], tf.Tensor]


class ModelOptions(NamedTuple):
    """Sizes of the model; `resource_variables` asks for TensorFlow's newer variables."""

    dimension: int = 8
    layers: Tuple[int, ...] = (64, 32)
    resource_variables: bool = False


def logits(
    features: Dict[str, tf.SparseTensor],
    options: ModelOptions,
    data: DataOptions,
    embed: Embed = tf.feature_column.input_layer,
) -> tf.Tensor:
    """The model's output before the sigmoid, [B, 1] float32.

    Args:
      features: SparseTensors of bucketed ids, see `data.sparse_features`.
      options: sizes of the model.
      data: shape of the rows.
      embed: looks up the embedding columns of the features, [B, columns * D].
    """
    columns = [
        tf.feature_column.embedding_column(
            tf.feature_column.categorical_column_with_identity(name, data.buckets),
            dimension=options.dimension,
            combiner="mean",
        )
        for name in column_names(data)
    ]
    with tf.variable_scope("wide", use_resource=options.resource_variables):
        hidden = embed(features, columns)
        for number, units in enumerate(options.layers):
            hidden = tf.layers.dense(hidden, units, tf.nn.relu, name=f"layer_{number}")
        return tf.layers.dense(hidden, 1, name="logit")
