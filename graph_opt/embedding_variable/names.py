"""Where DeepRec has its names for EmbeddingVariables in TensorFlow, and what they stand for."""

from __future__ import annotations

from graph_opt.embedding_variable import (
    adaptive_columns,
    columns,
    hash_table,
    lookups,
    option_classes,
    sparse_columns,
)
from graph_opt.embedding_variable.adaptive_lookups import (
    adaptive_embedding_lookup_sparse,
    safe_adaptive_embedding_lookup_sparse,
)
from graph_opt.embedding_variable.composite_tables import (
    get_dynamic_dimension_embedding_variable,
    get_multihash_variable,
)
from graph_opt.embedding_variable.get_embedding_variable import get_embedding_variable
from graph_opt.embedding_variable.multi_dim_lookups import (
    embedding_lookup_sparse_multi_dim,
    safe_embedding_lookup_multi_dim,
)

# Also in `tensorflow.python.ops.variables`.
OPTIONS = {
    name: getattr(option_classes, name)
    for name in (
        "CBFFilter",
        "CheckpointOption",
        "CounterFilter",
        "EmbeddingVariableOption",
        "GlobalStepEvict",
        "InitializerOption",
        "L2WeightEvict",
        "StorageOption",
    )
}
V1_NAMES = {
    "get_dynamic_dimension_embedding_variable": get_dynamic_dimension_embedding_variable,
    "get_embedding_variable": get_embedding_variable,
    "get_multihash_variable": get_multihash_variable,
    "hash_table": hash_table,
    **OPTIONS,
}
NN_NAMES = {
    "adaptive_embedding_lookup_sparse": adaptive_embedding_lookup_sparse,
    "embedding_lookup": lookups.embedding_lookup,
    "embedding_lookup_sparse": lookups.embedding_lookup_sparse,
    "embedding_lookup_sparse_multi_dim": embedding_lookup_sparse_multi_dim,
    "fused_safe_embedding_lookup_sparse": lookups.fused_safe_embedding_lookup_sparse,
    "safe_adaptive_embedding_lookup_sparse": safe_adaptive_embedding_lookup_sparse,
    "safe_embedding_lookup_multi_dim": safe_embedding_lookup_multi_dim,
    "safe_embedding_lookup_sparse": lookups.safe_embedding_lookup_sparse,
}
COLUMN_NAMES = {
    "categorical_column_with_adaptive_embedding": (
        adaptive_columns.categorical_column_with_adaptive_embedding
    ),
    "input_layer": adaptive_columns.input_layer,
    **{
        name: getattr(columns, name)
        for name in (
            "categorical_column_with_embedding",
            "categorical_column_with_multihash",
            "embedding_column",
            "linear_model",
            "sequence_categorical_column_with_embedding",
            "shared_embedding_columns",
        )
    },
    **{
        name: getattr(sparse_columns, name)
        for name in (
            "categorical_column_with_hash",
            "cutoff_categorical_column",
            "hash_table_column",
            "sparse_bucketized_column",
            "sparse_numeric_column",
        )
    },
}
