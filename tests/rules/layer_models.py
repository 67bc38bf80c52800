"""Small training graphs of feature columns and layers, in the manner of `lookup_models`."""

from __future__ import annotations

from typing import Any, Callable, Dict

from tests.rules.lookup_models import EMBEDDING_LOOKUP, ROWS, SAFE, WIDTH, Model


def keras_embedding(model: Model) -> None:
    """`tf.keras.layers.Embedding` in graph mode."""
    rows = model.tf.keras.layers.Embedding(ROWS, WIDTH)(model.features()["ids"])
    model.expect(rows, EMBEDDING_LOOKUP, table="embedding/embeddings", resource=True)


def _hashed(model: Model) -> Any:
    return model.tf.feature_column.categorical_column_with_hash_bucket("words", ROWS)


def _layer_scope(model: Model) -> Any:
    return model.tf.variable_scope(
        "features", use_resource=model.resource, partitioner=model.partitioner
    )


def input_layer(model: Model) -> None:
    """`input_layer` of one embedding column of dense strings."""
    tf = model.tf
    with _layer_scope(model):
        layer = tf.feature_column.input_layer(
            {"words": model.features()["words"]},
            [tf.feature_column.embedding_column(_hashed(model), WIDTH)],
        )
    model.expect(
        layer,
        SAFE,
        table="features/input_layer/words_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="mean",
    )


def input_layer_identity(model: Model) -> None:
    """`input_layer` of sparse ids that are used unchanged."""
    tf = model.tf
    column = tf.feature_column.categorical_column_with_identity("values", ROWS, default_value=0)
    with _layer_scope(model):
        layer = tf.feature_column.input_layer(
            {"values": model.sparse_ids()},
            [tf.feature_column.embedding_column(column, WIDTH, combiner="sqrtn")],
        )
    model.expect(
        layer,
        SAFE,
        table="features/input_layer/values_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="sqrtn",
    )


def input_layer_vocabulary(model: Model) -> None:
    """`input_layer` of a column with a vocabulary, a hash table."""
    tf = model.tf
    column = tf.feature_column.categorical_column_with_vocabulary_list("words", list("abcd"))
    with _layer_scope(model):
        layer = tf.feature_column.input_layer(
            {"words": model.features()["words"]},
            [tf.feature_column.embedding_column(column, WIDTH, combiner="sum")],
        )
    model.expect(
        layer,
        SAFE,
        table="features/input_layer/words_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="sum",
    )


def input_layer_shared(model: Model) -> None:
    """`input_layer` of two columns that share a table."""
    tf = model.tf
    second = tf.feature_column.categorical_column_with_hash_bucket("strings", ROWS)
    columns = tf.feature_column.shared_embedding_columns([_hashed(model), second], WIDTH)
    with _layer_scope(model):
        layer = tf.feature_column.input_layer(
            {"words": model.features()["words"], "strings": model.sparse_words()}, columns
        )
    assert layer.op.type == "ConcatV2"
    for reshaped in layer.op.inputs[:2]:
        model.expect(
            reshaped,
            SAFE,
            table="features/input_layer/strings_words_shared_embedding/embedding_weights",
            before=("Reshape",),
            combiner="mean",
        )


def input_layer_weighted(model: Model) -> None:
    """`input_layer` of a weighted categorical column."""
    tf = model.tf
    column = tf.feature_column.categorical_column_with_hash_bucket("strings", ROWS)
    weighted = tf.feature_column.weighted_categorical_column(column, "weights")
    with _layer_scope(model):
        layer = tf.feature_column.input_layer(
            {"strings": model.sparse_words(), "weights": model.sparse_weights()},
            [tf.feature_column.embedding_column(weighted, WIDTH)],
        )
    model.expect(
        layer,
        SAFE,
        table="features/input_layer/strings_weighted_by_weights_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="mean",
        weighted=True,
    )


def input_layer_indicator(model: Model) -> None:
    """`input_layer` of an embedding and an indicator of the same ids, which reads no table."""
    tf = model.tf
    hashed = _hashed(model)
    columns = [
        tf.feature_column.embedding_column(hashed, WIDTH),
        tf.feature_column.indicator_column(hashed),
    ]
    with _layer_scope(model):
        layer = tf.feature_column.input_layer({"words": model.features()["words"]}, columns)
    assert layer.op.type == "ConcatV2"
    model.outputs.append(layer)
    model.expect(
        layer.op.inputs[0],
        SAFE,
        table="features/input_layer/words_embedding/embedding_weights",
        before=("Reshape",),
        combiner="mean",
    )


def linear_model(model: Model) -> None:
    """`linear_model`: a table of width 1, and a bias, which is not a table."""
    tf = model.tf
    with tf.variable_scope("features", use_resource=model.resource):
        layer = tf.feature_column.linear_model(
            {"words": model.features()["words"]}, [_hashed(model)]
        )
    table = "features/linear_model/words/weights"
    variables = {variable.op.name: variable.op.type for variable in tf.global_variables()}
    model.expect(
        layer,
        SAFE,
        table=table,
        before=("BiasAdd", "Identity"),
        combiner="sum",
        resource=variables[table] == "VarHandleOp",
    )


def dense_features(model: Model) -> None:
    """`tf.keras.layers.DenseFeatures`."""
    tf = model.tf
    column = tf.feature_column.embedding_column(_hashed(model), WIDTH)
    layer = tf.keras.layers.DenseFeatures([column])({"words": model.features()["words"]})
    model.expect(
        layer,
        SAFE,
        table="dense_features/words_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="mean",
        resource=True,
    )


def sequence_features(model: Model) -> None:
    """`tf.keras.experimental.SequenceFeatures`: [B, T, D]."""
    tf = model.tf
    column = tf.feature_column.sequence_categorical_column_with_identity(
        "values", ROWS, default_value=0
    )
    layer, _ = tf.keras.experimental.SequenceFeatures(
        [tf.feature_column.embedding_column(column, WIDTH)]
    )({"values": model.sparse_ids()})
    model.expect(
        layer,
        SAFE,
        table="sequence_features/values_embedding/embedding_weights",
        before=("Identity", "Reshape"),
        combiner="mean",
        resource=True,
    )


# Feature columns always partition by `div`.
COLUMN_MODELS: Dict[str, Callable[[Model], None]] = {
    "input_layer": input_layer,
    "input_layer_identity": input_layer_identity,
    "input_layer_vocabulary": input_layer_vocabulary,
    "input_layer_shared": input_layer_shared,
    "input_layer_weighted": input_layer_weighted,
    "input_layer_indicator": input_layer_indicator,
}
# Models whose layer determines the kind of its table's variable.
LAYER_MODELS: Dict[str, Callable[[Model], None]] = {
    "keras_embedding": keras_embedding,
    "linear_model": linear_model,
    "dense_features": dense_features,
    "sequence_features": sequence_features,
}
