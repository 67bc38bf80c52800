"""`tf.contrib.layers`: layers, regularizers and initializers of models in functions."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.contrib.layers.dense import (
    dropout,
    flatten,
    fully_connected,
    linear,
    one_hot_encoding,
    relu,
    stack,
)
from graph_opt.contrib.layers.embedding import embed_sequence
from graph_opt.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from graph_opt.contrib.layers.normalization import batch_norm, layer_norm
from graph_opt.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

safe_embedding_lookup_sparse = tf.nn.safe_embedding_lookup_sparse

__all__ = [
    "apply_regularization",
    "batch_norm",
    "dropout",
    "embed_sequence",
    "flatten",
    "fully_connected",
    "l1_l2_regularizer",
    "l1_regularizer",
    "l2_regularizer",
    "layer_norm",
    "linear",
    "one_hot_encoding",
    "relu",
    "safe_embedding_lookup_sparse",
    "stack",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]
