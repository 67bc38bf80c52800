"""Sessions on graphs that train nothing: evaluation, prediction, a served model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.contrib import predictor
from graph_opt.reporting.warnings_given import forget_warnings
from tests.release_features import needs_estimators
from tests.session.small_model import async_config, dataset, report_on

FUSED_OPS = ("GroupEmbeddingLookup", "ResourceGroupEmbeddingLookup")


def config(fuse_inference: Optional[bool], prefetch: bool = False) -> Any:
    made = async_config() if prefetch else graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = True
    if fuse_inference is not None:
        options.group_embedding_options.fuse_inference = fuse_inference
    return made


def scores() -> Any:
    """The sum of two lookups of ids that are fed."""
    ids = tf.placeholder_with_default(np.arange(4, dtype=np.int64), [None], "ids")
    values = np.arange(24, dtype=np.float32).reshape(12, 2)
    tables = [tf.get_variable(name, initializer=values) for name in ("first", "second")]
    pooled = [tf.nn.embedding_lookup(table, ids) for table in tables]
    return tf.reduce_sum(tf.add_n(pooled), 1)


def fused_ops(graph: Any) -> int:
    return sum(operation.type in FUSED_OPS for operation in graph.get_operations())


@pytest.mark.parametrize("asked", [None, False, True])
def test_a_plain_session_fuses_inference_only_where_asked(asked: Optional[bool]) -> None:
    with graph_opt.Session(config=config(asked)) as session:
        result = scores()
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(result), [2.0, 10.0, 18.0, 26.0])
    report = report_on(result.graph)
    assert len(report.fused) == (2 if asked else 0)
    assert fused_ops(result.graph) == (1 if asked else 0)
    assert any("fuse_inference" in reason for reason in report.left_alone) != bool(asked)


def test_a_session_on_placeholders_says_why_nothing_is_prefetched() -> None:
    with graph_opt.Session(config=async_config()) as session:
        result = scores()
        session.run(tf.global_variables_initializer())
        session.run(result)
    refusals = [lookup.refusal for lookup in report_on(result.graph).lookups]
    assert [refusal["code"] for refusal in refusals if refusal] == ["placeholder_upstream"] * 2


def test_an_unchanged_graph_can_still_be_optimized_on_request() -> None:
    ids = tf.data.make_one_shot_iterator(tf.data.Dataset.range(8).batch(4)).get_next()
    table = tf.get_variable("table", [8, 2])
    rows = tf.nn.embedding_lookup(table, ids)
    hook = graph_opt.train.AsyncEmbeddingHook(config(False, prefetch=True))
    hook.begin()
    assert len(report_on(rows.graph).left_alone) == 2
    graph_opt.optimize_graph(rows.graph, config(False, prefetch=True))
    assert len(report_on(rows.graph).fused) == 1


class Reports(tf.train.SessionRunHook):
    """Collects the graph's report when its session ends."""

    def __init__(self) -> None:
        self.reports: List[Any] = []

    def end(self, session: Any) -> None:
        self.reports.append(report_on(session.graph))


def model_fn(features: Dict[str, Any], mode: str) -> Any:
    table = tf.get_variable("table", [24, 3])
    pooled = [tf.nn.embedding_lookup(table, features[name]) for name in ("user", "item")]
    score = tf.reduce_sum(tf.add_n(pooled), 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {"score": score}
        exported = {"serving_default": tf.estimator.export.PredictOutput(outputs)}
        return tf.estimator.EstimatorSpec(mode, predictions=outputs, export_outputs=exported)
    loss = tf.reduce_mean(tf.square(score - features["label"]))
    train_op = None
    if mode == tf.estimator.ModeKeys.TRAIN:
        step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdagradOptimizer(0.1).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


@needs_estimators
def test_each_session_of_an_estimator_has_a_report(tmp_path: Path) -> None:
    trained, evaluated, predicted = Reports(), Reports(), Reports()
    with graph_opt.install():
        run_config = tf.estimator.RunConfig(session_config=config(False, prefetch=True))
        estimator = tf.estimator.Estimator(model_fn, str(tmp_path), config=run_config)
        estimator.train(dataset, hooks=[trained])
        estimator.evaluate(dataset, hooks=[evaluated])
        list(estimator.predict(dataset, hooks=[predicted]))
    (report,) = trained.reports
    assert len(report.fused) == 2
    for (report,) in (evaluated.reports, predicted.reports):
        assert report.fused == () and report.moved == ()
        assert [text.split(" (")[0] for text in report.left_alone] == [
            "the graph trains nothing, so its lookups are not fused",
            "the graph trains nothing, so its lookups do not run ahead",
        ]


def served() -> Any:
    features = {name: tf.placeholder(tf.int64, [None], name) for name in ("user", "item")}
    return tf.estimator.export.ServingInputReceiver(features, features)


@needs_estimators
def test_evaluation_and_prediction_are_fused_by_default_and_exports_are_stock(
    tmp_path: Path, capfd: Any
) -> None:
    def run(asked: Any) -> Any:
        run_config = tf.estimator.RunConfig(session_config=asked, tf_random_seed=3)
        estimator = tf.estimator.Estimator(model_fn, str(tmp_path / "model"), config=run_config)
        estimator.train(dataset, max_steps=2)
        scores = [row["score"] for row in estimator.predict(dataset)]
        loss = estimator.evaluate(dataset)["loss"]
        exported = estimator.export_saved_model(str(tmp_path / "exported"), served)
        return loss, scores, Path(exported.decode(), "saved_model.pb").read_bytes()

    forget_warnings()  # Lines tell of those about the process, which other tests may have caused.
    stock_loss, stock_scores, _ = run(None)
    with graph_opt.install():
        loss, scores, exported = run(config(None))
    assert loss == stock_loss and scores == stock_scores
    assert not any(name.encode() in exported for name in FUSED_OPS)
    said = [line for line in capfd.readouterr().err.splitlines() if line.startswith("graph_opt: ")]
    fused = "2 of 2 lookups fused into 1 op"
    assert [line.partition(": ")[2].partition(": ")[2] for line in said] == [fused] * 2


@needs_estimators
def test_a_predictor_of_an_estimator_is_fused(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(model_fn, str(tmp_path))
    estimator.train(dataset, max_steps=2)
    request = {"user": [1, 2], "item": [0, 3]}
    expected = predictor.from_estimator(estimator, served)(request)
    with graph_opt.install(config(None)):
        predict = predictor.from_estimator(estimator, served)
        found = predict(request)
    assert len(report_on(predict.graph).fused) == 2
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    with pytest.raises(KeyError, match="output_key is 'other'; the model's export_outputs are"):
        predictor.from_estimator(estimator, served, "other")
