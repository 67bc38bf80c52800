"""Columns without a table are computed ahead with the embeddings beside them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Tuple

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.reporting.summary import summary
from graph_opt.rules.lookup import BUCKETIZED_COLUMN, INDICATOR_COLUMN
from graph_opt.session.live import optimize_graph
from graph_opt.session.session import Session
from tests.passes import models
from tests.quick_cases import slow_but

ROWS, BATCH = 32, 4
Layer = Callable[[Dict[str, Any], List[Any]], Any]


def features() -> Tuple[Dict[str, Any], Any]:
    """Batches of ids, words and ages, with labels; `genre` has -1 where there is none."""
    random = np.random.RandomState(2)
    data = {
        "genre": random.randint(-1, 6, [ROWS, 2]),
        "kind": random.randint(0, 6, [ROWS, 2]),
        "word": np.array([["a"], ["b"], ["none"], ["c"]] * (ROWS // 4)),
        "age": random.uniform(10, 60, [ROWS, 1]).astype(np.float32),
        "weight": random.uniform(0.1, 2, [ROWS, 2]).astype(np.float32),
        "user": random.randint(0, models.VOCABULARY, [ROWS, 1]),
    }
    labels = random.randint(0, 2, [ROWS]).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((data, labels)).batch(BATCH)
    return tf.data.make_one_shot_iterator(dataset).get_next()


def columns(embedding: bool = True) -> List[Any]:
    column = tf.feature_column
    genre = column.categorical_column_with_identity("genre", 6)
    kind = column.categorical_column_with_identity("kind", 6)
    made = [
        column.indicator_column(genre),
        column.indicator_column(column.weighted_categorical_column(kind, "weight")),
        column.indicator_column(column.categorical_column_with_vocabulary_list("word", "abc")),
        column.bucketized_column(column.numeric_column("age"), [18.0, 30.0, 50.0]),
    ]
    if embedding:
        user = column.categorical_column_with_identity("user", models.VOCABULARY)
        initializer = tf.random_uniform_initializer(-1, 1, seed=1)
        made.append(column.embedding_column(user, 3, initializer=initializer))
    return made


def input_layer(inputs: Dict[str, Any], made: List[Any]) -> Any:
    return tf.feature_column.input_layer(inputs, made)


def dense_features(inputs: Dict[str, Any], made: List[Any]) -> Any:
    return tf.keras.layers.DenseFeatures(made)(inputs)


def losses(layer: Layer, made: List[Any], config: Any) -> Tuple[List[float], Any]:
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        inputs, labels = features()
        joined = layer(inputs, made)
        logits = tf.layers.dense(
            joined, 1, kernel_initializer=tf.random_uniform_initializer(-1, 1, seed=5)
        )[:, 0]
        loss = tf.losses.sigmoid_cross_entropy(labels, logits)
        step = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
        report = optimize_graph(graph, config) if config else None
        with Session(graph=graph, config=config) as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            return [session.run([loss, step])[0] for _ in range(ROWS // BATCH)], report


@pytest.mark.parametrize("layer", slow_but([input_layer, dense_features], dense_features))
def test_all_columns_of_an_input_layer_are_computed_ahead(layer: Layer) -> None:
    expected, _ = losses(layer, columns(), None)
    found, report = losses(layer, columns(), models.config())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(report.moved) == len(report.lookups) == 1
    apis = [column.api for column in report.columns]
    assert sorted(apis) == sorted([INDICATOR_COLUMN] * 3 + [BUCKETIZED_COLUMN])
    assert {column.stage for column in report.columns} == {report.stages[0].name}
    crossing = {tensor.name for tensor in report.stages[0].boundary}
    assert crossing.issuperset(column.output for column in report.columns)
    assert "4 of 4 columns without a table moved" in str(report)


def test_main_computes_none_of_it() -> None:
    with tf.Graph().as_default() as graph:
        inputs, labels = features()
        joined = input_layer(inputs, columns())
        loss = tf.losses.mean_squared_error(labels, tf.reduce_sum(joined, axis=1))
        step = tf.train.AdagradOptimizer(0.1).minimize(loss)
        optimize_graph(graph, models.config())
        with Session(graph=graph, config=models.config()) as session:
            session.run([tf.global_variables_initializer(), tf.tables_initializer()])
            metadata = tf.RunMetadata()
            options = tf.RunOptions(output_partition_graphs=True)
            session.run(step, options=options, run_metadata=metadata)
    ran = {node.op for part in metadata.partition_graphs for node in part.node}
    assert ran.isdisjoint(["OneHot", "SparseToDense", "ScatterNd", "Bucketize", "Where"])


def test_a_model_of_only_indicators_is_split_too() -> None:
    expected, _ = losses(input_layer, columns(embedding=False), None)
    found, report = losses(input_layer, columns(embedding=False), models.config())
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert not report.lookups and len(report.stages) == 1 and not report.warnings
    assert summary(report) == "4 of 4 columns without a table run ahead of the step"


def test_without_an_io_stage_they_stay_without_an_error() -> None:
    made = columns(embedding=False)
    found, report = losses(input_layer, made, models.config(infer_io_stage=False))
    assert found and not report.stages
    assert {column.refusal["code"] for column in report.columns} == {"no_io_stage"}
    assert "no_io_stage" in str(report)


def test_other_one_hots_stay_where_they_are() -> None:
    inputs, _ = features()
    hot = tf.one_hot(inputs["user"][:, 0], models.VOCABULARY)
    rows = tf.nn.embedding_lookup(models.table(), inputs["user"][:, 0])
    tf.train.AdagradOptimizer(0.1).minimize(tf.reduce_sum(rows) + tf.reduce_sum(hot))
    report = models.optimized().report
    assert report.columns == () and len(report.moved) == 1


def test_a_column_that_a_placeholder_feeds_stays() -> None:
    inputs, labels = features()
    inputs["genre"] = tf.placeholder(tf.int64, [BATCH, 2])
    joined = input_layer(inputs, columns())
    loss = tf.losses.mean_squared_error(labels, tf.reduce_sum(joined, axis=1))
    tf.train.AdagradOptimizer(0.1).minimize(loss)
    report = models.optimized().report
    left = [(c.name, c.refusal["code"]) for c in report.columns if c.refusal is not None]
    assert left == [("input_layer/genre_indicator", "placeholder_upstream")]
    assert len(report.moved) == 1
