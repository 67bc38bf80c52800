"""Micro-batches of either rule together with what else scripts and configs ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.graph_records import report_of
from tests.passes.summed_batches import batch_models as models
from tests.passes.summed_batches.batch_models import OPTIMIZERS, config, dataset, layer, loss_of
from tests.passes.transfers import dense_models
from tests.release_features import needs_estimators
from tests.session.parameter_servers import stock_servers

BATCHES = {"parts": 1, "batches": 3}
"""How many batches a step of each rule takes."""


def of_rule(rule: str, **options: bool) -> Any:
    made = config(3, **options)
    made.graph_options.optimizer_options.micro_batch_rule = rule
    return made


def assert_same_as_stock(model: models.Loss, rule: str, tolerance: float, **options: bool) -> Any:
    """Trains with both, and returns the report."""
    given = model, OPTIMIZERS["adagrad"]
    wanted = models.expected(*given, BATCHES[rule], lambda: dataset(12), models.same, 4)
    found = models.found(*given, lambda: dataset(12), models.same, of_rule(rule, **options), 4)
    assert found.report is not None and found.report.micro_batches, str(found.report)
    assert (found.rows, found.step) == (wanted.rows, wanted.step)
    np.testing.assert_allclose(found.losses, wanted.losses, tolerance, tolerance)
    for one, other in zip(found.variables, wanted.variables):
        np.testing.assert_allclose(one, other, tolerance, tolerance)
    return found.report


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
def test_lookups_run_ahead_whole(grouped: bool) -> None:
    report = assert_same_as_stock(models.frozen, "parts", 2e-5, ahead=True, grouped=grouped)
    assert len(report.lookups) == 2 and all(each.stage for each in report.lookups)


def _columns(features: models.Features) -> Any:
    column = tf.feature_column
    ids = column.categorical_column_with_identity("other", models.VOCABULARY)
    lists = column.categorical_column_with_hash_bucket("ids", 20, tf.int64)
    buckets = column.bucketized_column(column.numeric_column("label"), [0.5])
    columns = [
        column.embedding_column(ids, 4),
        column.embedding_column(lists, 3, combiner="sqrtn"),
        column.indicator_column(ids),
        column.numeric_column("dense", 5),
        buckets,
    ]
    hidden = tf.nn.relu(layer("hidden", tf.feature_column.input_layer(features, columns), 6))
    return loss_of(layer("logits", hidden, 1), features)


@pytest.mark.slow
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("rule", sorted(BATCHES))
def test_feature_columns(rule: str, grouped: bool) -> None:
    assert_same_as_stock(_columns, rule, 2e-5, grouped=grouped)


def _in_bfloat16(features: models.Features) -> Any:
    with graph_opt.install():
        scope = tf.variable_scope("dnn", reuse=tf.AUTO_REUSE)
        with scope.keep_weights(dtype=tf.float32):
            hidden = tf.cast(features["dense"], tf.bfloat16)
            hidden = tf.layers.dense(hidden, 6, tf.nn.relu, name="hidden")
            logits = tf.layers.dense(hidden, 1, name="logits")
    return loss_of(tf.cast(logits, tf.float32), features)


@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(BATCHES))
def test_layers_in_bfloat16(rule: str) -> None:
    # Parts of a batch have their gradients rounded before they are summed.
    assert_same_as_stock(_in_bfloat16, rule, 2e-2)


@pytest.mark.slow
@pytest.mark.parametrize("model", [models.sequences, models.branches])
def test_loops_and_branches_in_parts_give_the_same_or_are_refused(model: models.Loss) -> None:
    was_enabled = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        given = model, OPTIMIZERS["adagrad"]
        wanted = models.expected(*given, 1, lambda: dataset(4), models.same, 4)
        found = models.found(*given, lambda: dataset(4), models.same, of_rule("parts"), 4)
    finally:
        (tf.enable_control_flow_v2 if was_enabled else tf.disable_control_flow_v2)()
    assert found.report is not None
    assert found.report.micro_batches or "each batch runs whole" in str(found.report)
    np.testing.assert_allclose(found.losses, wanted.losses, 2e-5, 2e-6)
    for one, other in zip(found.variables, wanted.variables):
        np.testing.assert_allclose(one, other, 2e-5, 2e-6)


class _Graph(tf.train.SessionRunHook):
    graph: Any = None

    def begin(self) -> None:
        self.graph = tf.get_default_graph()


def _model_fn(features: Dict[str, Any], mode: str) -> Any:
    with tf.variable_scope("model"):
        loss = models.with_tables(features)
    update = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
    metrics = {"mean": tf.metrics.mean(features["dense"])}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update, eval_metric_ops=metrics)


@needs_estimators
@pytest.mark.slow
@pytest.mark.parametrize("rule", sorted(BATCHES))
def test_estimators_train_evaluate_and_are_read_by_stock(rule: str, tmp_path: Path) -> None:
    optimizer = OPTIMIZERS["adagrad"]
    # An estimator draws initial values of its own, so stock begins with what it drew.
    graph = _Graph()
    with graph_opt.install(of_rule(rule, grouped=True)):
        run_config = tf.estimator.RunConfig(str(tmp_path), save_checkpoints_steps=1)
        estimator = tf.estimator.Estimator(_model_fn, config=run_config)
        estimator.train(lambda: dataset(1 + 6), max_steps=1)
        first = {name: estimator.get_variable_value(name) for name in _weights(estimator)}
        estimator.train(lambda: dataset(6), hooks=[graph], max_steps=3)
        evaluated = estimator.evaluate(lambda: dataset(4))
    report = report_of(graph.graph)
    assert report is not None and report.micro_batches
    wanted = _stock_steps(first, optimizer(), BATCHES[rule], 2)
    for name, value in wanted.items():
        found = tf.train.load_variable(str(tmp_path), name)
        np.testing.assert_allclose(found, value, 2e-5, 2e-6)
    assert evaluated["global_step"] == 3


def _weights(estimator: Any) -> List[str]:
    return [each for each in estimator.get_variable_names() if each != "global_step"]


def _stock_steps(first: Dict[str, Any], optimizer: Any, number: int, steps: int) -> Dict[str, Any]:
    """What stock TensorFlow makes of these variables, with a tower for each batch."""
    with tf.Graph().as_default():
        update, _, _ = models.towers(models.with_tables, optimizer, number, dataset(6))
        variables = {each.op.name: each for each in tf.global_variables() if each.op.name in first}
        assert variables.keys() == first.keys()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for name, variable in variables.items():
                variable.load(first[name], session)
            for _ in range(steps):
                session.run(update)
            return dict(session.run(variables))


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with one parameter server, which is stock TensorFlow."""
    with stock_servers(1) as target:
        yield target


@pytest.mark.slow
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("rule", sorted(BATCHES))
def test_weights_of_servers_travel_as_one(target: str, rule: str, resource: bool) -> None:
    build = dense_models.usual_model("adam", resource)
    packing = dense_models.packing()
    optimizer = packing.graph_options.optimizer_options
    optimizer.micro_batch_num, optimizer.micro_batch_rule = 3, rule
    alone = of_rule(rule)
    stock = dense_models.train(target, build, None if rule == "parts" else alone)
    both = dense_models.train(target, build, packing)
    report = report_of(both.graph)
    assert report is not None and report.micro_batches, str(report)
    np.testing.assert_allclose(both.losses, stock.losses, 1e-5)
    for name, value in stock.values.items():
        np.testing.assert_allclose(both.values[name], value, 1e-4, 1e-6)
    assert any("pack_dense" in each for each in both.received)
    assert len(both.received) < len(stock.received) // 2, both.received
