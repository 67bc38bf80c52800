"""Small training graphs that only 1.15 writes, in the manner of `lookup_models`."""

from __future__ import annotations

from typing import Any, Callable, Dict

from tensorflow import contrib

from tests.rules.lookup_models import EMBEDDING_LOOKUP, ROWS, SAFE, WIDTH, Model

SCATTERED = "tf.contrib.layers.scattered_embedding_lookup_sparse"


def _contrib_scope(model: Model) -> Any:
    return model.tf.variable_scope("in", use_resource=model.resource, partitioner=model.partitioner)


def contrib_safe(model: Model) -> None:
    """`contrib.layers.safe_embedding_lookup_sparse`: reads resource variables whole."""
    combined = contrib.layers.safe_embedding_lookup_sparse(
        model.table(), model.sparse_ids(), partition_strategy=model.strategy, combiner="mean"
    )
    model.expect(combined, SAFE, combiner="mean")


def contrib_safe_weighted(model: Model) -> None:
    """The same function, with weights."""
    combined = contrib.layers.safe_embedding_lookup_sparse(
        model.table(),
        model.sparse_ids(),
        model.sparse_weights(),
        partition_strategy=model.strategy,
        combiner="sqrtn",
    )
    model.expect(combined, SAFE, combiner="sqrtn", weighted=True)


def contrib_input(model: Model) -> None:
    """`input_from_feature_columns` of one embedding column."""
    hashed = contrib.layers.sparse_column_with_hash_bucket("words", ROWS)
    column = contrib.layers.embedding_column(hashed, WIDTH, combiner="mean")
    with _contrib_scope(model):
        layer = contrib.layers.input_from_feature_columns({"words": model.sparse_words()}, [column])
    table = "in/input_from_feature_columns/words_embedding/weights"
    model.expect(layer, SAFE, table=table, before=("Identity",), combiner="mean")


def contrib_sequence_input(model: Model) -> None:
    """`sequence_input_from_feature_columns`: [B, T, D]."""
    hashed = contrib.layers.sparse_column_with_hash_bucket("words", ROWS)
    column = contrib.layers.embedding_column(hashed, WIDTH, combiner="mean")
    with _contrib_scope(model):
        layer = contrib.layers.sequence_input_from_feature_columns(
            {"words": model.sparse_words()}, [column]
        )
    table = "in/sequence_input_from_feature_columns/words_embedding/weights"
    model.expect(layer, SAFE, table=table, before=("Identity",), combiner="mean")


def contrib_scattered(model: Model) -> None:
    """`scattered_embedding_column`: a rank-1 table."""
    column = contrib.layers.scattered_embedding_column("words", ROWS, WIDTH, hash_key=7)
    with _contrib_scope(model):
        layer = contrib.layers.input_from_feature_columns({"words": model.sparse_words()}, [column])
    table = "in/input_from_feature_columns/words_scattered_embedding/weights"
    model.expect(layer, SCATTERED, table=table, before=("Identity",), combiner="mean")


def contrib_sequence_layer(model: Model) -> None:
    """`contrib.feature_column.sequence_input_layer`."""
    ids = contrib.feature_column.sequence_categorical_column_with_identity(
        "values", ROWS, default_value=0
    )
    column = model.tf.feature_column.embedding_column(ids, WIDTH)
    with _contrib_scope(model):
        layer, _ = contrib.feature_column.sequence_input_layer(
            {"values": model.sparse_ids()}, [column]
        )
    table = "in/sequence_input_layer/values_embedding/embedding_weights"
    model.expect(layer, SAFE, table=table, before=("Identity", "Reshape"), combiner="mean")


def contrib_weighted_sum(model: Model) -> None:
    """`weighted_sum_from_feature_columns`: a linear model with a table of width 1."""
    hashed = contrib.layers.sparse_column_with_hash_bucket("words", ROWS)
    with _contrib_scope(model):
        layer, _, _ = contrib.layers.weighted_sum_from_feature_columns(
            {"words": model.sparse_words()}, [hashed], 1
        )
    table = "in/weighted_sum_from_feature_columns/words/weights"
    model.expect(layer, SAFE, table=table, before=("BiasAdd", "Reshape"), combiner="sum")


def contrib_unique(model: Model) -> None:
    """`embedding_lookup_unique`: its gather of unique ids is the lookup, the rest stays."""
    layer = contrib.layers.embedding_lookup_unique(model.table(), model.features()["ids"])
    model.expect(layer, EMBEDDING_LOOKUP, before=("Reshape", "GatherV2"))


def contrib_embed_sequence(model: Model) -> None:
    """`embed_sequence` of dense ids."""
    with _contrib_scope(model):
        layer = contrib.layers.embed_sequence(model.features()["ids"], ROWS, WIDTH)
    model.expect(layer, EMBEDDING_LOOKUP, table="in/EmbedSequence/embeddings")


def identity_without_default(model: Model) -> None:
    """Ids that are checked by Assert inside Switch and Merge, which only 1.15 writes."""
    columns = model.tf.feature_column
    column = columns.embedding_column(
        columns.categorical_column_with_identity("values", ROWS), WIDTH
    )
    with _contrib_scope(model):
        layer = columns.input_layer({"values": model.sparse_ids()}, [column])
    table = "in/input_layer/values_embedding/embedding_weights"
    model.expect(layer, SAFE, table=table, before=("Identity", "Reshape"), combiner="mean")


CONTRIB_MODELS: Dict[str, Callable[[Model], None]] = {
    model.__name__: model
    for model in (
        contrib_safe,
        contrib_safe_weighted,
        contrib_input,
        contrib_sequence_input,
        contrib_scattered,
        contrib_sequence_layer,
        contrib_weighted_sum,
        contrib_unique,
        contrib_embed_sequence,
        identity_without_default,
    )
}
