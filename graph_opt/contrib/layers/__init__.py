"""`tf.contrib.layers`: layers, regularizers and initializers of models in functions."""

from __future__ import annotations

from graph_opt.compat import tf
from graph_opt.contrib.files import missing_from
from graph_opt.contrib.layers.dense import (
    dropout,
    flatten,
    fully_connected,
    linear,
    one_hot_encoding,
    relu,
    relu6,
    repeat,
    stack,
)
from graph_opt.contrib.layers.embedding import embed_sequence
from graph_opt.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from graph_opt.contrib.layers.normalization import batch_norm, layer_norm
from graph_opt.contrib.layers.optimization import (
    OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES,
    optimize_loss,
)
from graph_opt.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

safe_embedding_lookup_sparse = tf.nn.safe_embedding_lookup_sparse

__all__ = [
    "OPTIMIZER_CLS_NAMES",
    "OPTIMIZER_SUMMARIES",
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
    "optimize_loss",
    "relu",
    "relu6",
    "repeat",
    "safe_embedding_lookup_sparse",
    "stack",
    "sum_regularizer",
    "variance_scaling_initializer",
    "xavier_initializer",
    "xavier_initializer_conv2d",
]

_COLUMNS = "tf.feature_column."
__getattr__ = missing_from(
    __name__,
    {
        "avg_pool*": "tf.layers.average_pooling2d",
        "bias_add": "tf.nn.bias_add",
        "bucketized_column": _COLUMNS + "bucketized_column",
        "conv*": "tf.layers",
        "create_feature_spec_for_parsing": _COLUMNS + "make_parse_example_spec",
        "crossed_column": _COLUMNS + "crossed_column",
        "embedding_column": _COLUMNS + "embedding_column",
        "embedding_lookup_unique": "tf.nn.embedding_lookup",
        "input_from_feature_columns": _COLUMNS + "input_layer",
        "legacy_*": "fully_connected",
        "max_pool*": "tf.layers.max_pooling2d",
        "one_hot_column": _COLUMNS + "indicator_column",
        "real_valued_column": _COLUMNS + "numeric_column",
        "scattered_embedding_column": _COLUMNS + "categorical_column_with_multihash",
        "separable_conv*": "tf.layers.separable_conv2d",
        "shared_embedding_columns": _COLUMNS + "shared_embedding_columns",
        "sparse_column_with_hash_bucket": _COLUMNS + "categorical_column_with_hash_bucket",
        "sparse_column_with_integerized_feature": (_COLUMNS + "categorical_column_with_identity"),
        "sparse_column_with_keys": _COLUMNS + "categorical_column_with_vocabulary_list",
        "sparse_column_with_vocabulary_file": (
            _COLUMNS + "categorical_column_with_vocabulary_file"
        ),
        "summarize_*": "tf.summary",
        "unit_norm": "tf.nn.l2_normalize",
        "weighted_*": _COLUMNS + "weighted_categorical_column",
        "*": "tf.layers and tf.nn",
    },
)
