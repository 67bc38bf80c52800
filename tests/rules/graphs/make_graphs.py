"""Writes the graphs in this folder: training graphs as TensorFlow 1.15 builds them.

`tf.contrib` ended with 1.15, yet its graphs are still trained. Run from the root of the checkout
with an interpreter that has TensorFlow 1.15 (Python 3.7):

    python3.7 -m tests.rules.graphs.make_graphs

Each `NAME.pbtxt` is a whole GraphDef, one node per line, including gradients and optimizer;
`expected.json` lists what a search must find in it. The same TensorFlow writes the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tensorflow as tensorflow_1
from google.protobuf import text_format

from tests.rules import layer_models, lookup_models
from tests.rules.lookup_models import EMBEDDING_LOOKUP, ROWS, SAFE, WIDTH, Model

SCATTERED = "tf.contrib.layers.scattered_embedding_lookup_sparse"
FOLDER = Path(__file__).resolve().parent
contrib = tensorflow_1.contrib
tf = tensorflow_1.compat.v1

Variant = Tuple[str, Callable[[Model], None], Dict[str, Any]]


def _contrib_scope(model: Model) -> Any:
    return tf.variable_scope("in", use_resource=model.resource, partitioner=model.partitioner)


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
    column = contrib.feature_column.sequence_categorical_column_with_identity(
        "values", ROWS, default_value=0
    )
    with _contrib_scope(model):
        layer, _ = contrib.feature_column.sequence_input_layer(
            {"values": model.sparse_ids()}, [tf.feature_column.embedding_column(column, WIDTH)]
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
    column = tf.feature_column.categorical_column_with_identity("values", ROWS)
    with _contrib_scope(model):
        layer = tf.feature_column.input_layer(
            {"values": model.sparse_ids()}, [tf.feature_column.embedding_column(column, WIDTH)]
        )
    table = "in/input_layer/values_embedding/embedding_weights"
    model.expect(layer, SAFE, table=table, before=("Identity", "Reshape"), combiner="mean")


def _adam() -> Any:
    return tf.train.AdamOptimizer(0.1)


def _descent() -> Any:
    return tf.train.GradientDescentOptimizer(0.1)


def _ftrl() -> Any:
    return tf.train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.2)


def variants() -> List[Variant]:
    """File name, model and how to build it."""
    resource: Dict[str, Any] = {"resource": True}
    div: Dict[str, Any] = {"resource": True, "partitions": 2, "strategy": "div"}
    mod: Dict[str, Any] = {"resource": True, "partitions": 2, "strategy": "mod"}
    core = lookup_models.CORE_MODELS
    layers = layer_models.LAYER_MODELS
    return [
        ("contrib_embed_sequence", contrib_embed_sequence, resource),
        ("contrib_input", contrib_input, {}),
        ("contrib_input_resource_div", contrib_input, div),
        ("contrib_safe_mod", contrib_safe, mod),
        ("contrib_safe_resource", contrib_safe, resource),
        ("contrib_safe_weighted", contrib_safe_weighted, resource),
        ("contrib_scattered", contrib_scattered, {}),
        ("contrib_scattered_resource", contrib_scattered, resource),
        ("contrib_sequence_input", contrib_sequence_input, resource),
        ("contrib_sequence_layer", contrib_sequence_layer, {}),
        ("contrib_unique", contrib_unique, resource),
        ("contrib_weighted_sum", contrib_weighted_sum, {}),
        ("core_embedding_lookup_div", core["embedding_lookup"], div),
        ("core_embedding_lookup_max_norm", core["embedding_lookup_max_norm"], resource),
        ("core_safe_mean", core["safe_mean"], {}),
        ("core_safe_weighted_mean", core["safe_weighted_mean"], mod),
        ("core_sparse_sum_resource", core["sparse_sum"], resource),
        ("core_sparse_weighted_sqrtn", core["sparse_weighted_sqrtn"], {}),
        ("layer_dense_features", layers["dense_features"], {}),
        ("layer_identity_without_default", identity_without_default, {}),
        ("layer_keras_embedding", layers["keras_embedding"], {}),
        ("layer_linear_model", layers["linear_model"], {}),
        ("layer_sequence_features", layers["sequence_features"], {}),
        ("train_adam_resource", core["sparse_mean"], {**resource, "optimizer": _adam}),
        ("train_descent_resource", core["sparse_mean"], {**resource, "optimizer": _descent}),
        ("train_ftrl", core["embedding_lookup"], {"optimizer": _ftrl}),
    ]


def make(build: Callable[[Model], None], options: Dict[str, Any]) -> Tuple[Any, Model]:
    """A training graph, and the model that says what is in it."""
    with tensorflow_1.Graph().as_default() as graph:
        tf.set_random_seed(1)
        optimizer = options.get("optimizer", lambda: None)()
        model = Model(tf, **{key: options[key] for key in options if key != "optimizer"})
        build(model)
        model.train(optimizer)
        return without_defaults(graph), model


def without_defaults(graph: Any) -> Any:
    """The GraphDef without what readers can do without: default attributes, inferred shapes."""
    graph_def = tf.train.export_meta_graph(graph=graph, strip_default_attrs=True).graph_def
    for node in graph_def.node:
        if "_output_shapes" in node.attr:
            del node.attr["_output_shapes"]
    return graph_def


def one_node_a_line(graph_def: Any) -> str:
    """The GraphDef as a text proto, half as large as with TensorFlow's own line breaks."""
    lines = [
        "{} {{ {} }}".format(field.name, text_format.MessageToString(part, as_one_line=True))
        for field, value in graph_def.ListFields()
        if field.message_type is not None
        for part in (value if field.label == field.LABEL_REPEATED else [value])
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Writes all graphs and `expected.json`."""
    tensorflow_1.logging.set_verbosity(tensorflow_1.logging.ERROR)
    if not tensorflow_1.__version__.startswith("1.15"):
        print("need TensorFlow 1.15, this is", tensorflow_1.__version__)
        return 1
    expected = {}
    for name, build, options in variants():
        graph_def, model = make(build, options)
        (FOLDER / (name + ".pbtxt")).write_text(one_node_a_line(graph_def))
        expected[name] = [dataclasses.asdict(fact) for fact in model.expected]
    text = json.dumps(expected, indent=1, sort_keys=True)
    (FOLDER / "expected.json").write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
