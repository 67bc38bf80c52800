"""`tf.estimator`: training prefetches; evaluation and prediction work as usual."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.config import to_stock
from graph_opt.session.graph_records import report_of
from tests.release_features import needs_estimators
from tests.session.small_model import (
    async_config,
    dataset,
    model_on,
    report_on,
    row_batches,
    stock_losses,
)

pytestmark = needs_estimators

STOCK_CONFIG = tf.ConfigProto


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    yield
    graph_opt.uninstall()
    tf.summary.FileWriterCache.clear()


class Watcher(tf.train.SessionRunHook):
    """Collects what each training step fetched, and the graph."""

    def __init__(self, *names: str) -> None:
        self.values: List[Any] = []
        self.graph: Any = None
        self._names = list(names)

    def begin(self) -> None:
        self.graph = tf.get_default_graph()

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._names)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values.append(run_values.results)


def model_fn(features: Dict[str, Any], mode: str) -> Any:
    model = model_on(features, 0.0)
    scores = tf.reduce_sum(model.user_rows, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"row": features["row"], "s": scores})
    metrics = {"mean_score": tf.metrics.mean(scores)}
    return tf.estimator.EstimatorSpec(
        mode, loss=model.loss, train_op=model.train_op, eval_metric_ops=metrics
    )


def predict_fn(features: Dict[str, Any], mode: str) -> Any:
    """Like `model_fn`, without a train op in the prediction graph."""
    if mode != tf.estimator.ModeKeys.PREDICT:
        return model_fn(features, mode)
    values = np.zeros([11, 3], np.float32)
    users = tf.get_variable("users", initializer=values, use_resource=False)
    rows = tf.nn.embedding_lookup(users, features["user"])
    return tf.estimator.EstimatorSpec(
        mode, predictions={"row": features["row"], "s": tf.reduce_sum(rows, axis=1)}
    )


def input_fn() -> Any:
    return dataset()


def train_evaluate_and_predict(config: Any, folder: Path, hooks: List[Any]) -> Dict[str, Any]:
    run_config = tf.estimator.RunConfig(
        session_config=config, model_dir=str(folder), save_checkpoints_steps=4,
        save_summary_steps=1, log_step_count_steps=1,
    )  # fmt: skip
    estimator = tf.estimator.Estimator(predict_fn, config=run_config)
    watcher = Watcher("loss:0", "IteratorGetNext:2")
    estimator.train(input_fn, hooks=[watcher] + hooks)
    evaluation_graph = Watcher()
    evaluation = estimator.evaluate(input_fn, hooks=[evaluation_graph])
    prediction_graph = Watcher()
    predictions = list(estimator.predict(input_fn, hooks=[prediction_graph]))
    return {
        "losses": [loss for loss, _ in watcher.values],
        "rows": [list(row) for _, row in watcher.values],
        "step": evaluation["global_step"],
        "score": evaluation["mean_score"],
        "predicted": [(int(p["row"]), float(p["s"])) for p in predictions],
        "trained": report_of(watcher.graph),
        "evaluated": report_of(evaluation_graph.graph),
        "predicted in": report_of(prediction_graph.graph),
    }


def test_training_is_prefetched_and_nothing_else_changes(tmp_path: Path) -> None:
    stock = train_evaluate_and_predict(None, tmp_path / "stock", [])
    with graph_opt.install():
        installed = train_evaluate_and_predict(async_config(2), tmp_path / "installed", [])
    hook = graph_opt.train.AsyncEmbeddingHook(async_config())
    hooked = train_evaluate_and_predict(to_stock(async_config()), tmp_path / "hooked", [hook])
    assert stock["rows"] == row_batches()
    np.testing.assert_array_equal(stock["losses"], stock_losses())
    for optimized in (installed, hooked):
        assert len(optimized["trained"].moved) == 2
        for mode in ("evaluated", "predicted in"):
            report = optimized[mode]
            assert (
                report is None if optimized is hooked else "trains nothing" in report.left_alone[0]
            )
        for name in ("losses", "rows", "step", "score", "predicted"):
            assert optimized[name] == stock[name], name


def test_max_steps_end_training_at_once_and_training_resumes_from_there(tmp_path: Path) -> None:
    with graph_opt.install(async_config(threads=3), infer_io_stage=True):
        run_config = tf.estimator.RunConfig(model_dir=str(tmp_path))
        estimator = tf.estimator.Estimator(model_fn, config=run_config)
        estimator.train(lambda: dataset(epochs=1000), max_steps=5)
        watcher = Watcher("loss:0")
        estimator.train(lambda: dataset(epochs=1000), steps=3, hooks=[watcher])
    assert estimator.get_variable_value("global_step") == 8
    assert len(watcher.values) == 3
    assert report_on(watcher.graph).stages != ()


def test_a_config_made_before_install_is_accepted(tmp_path: Path) -> None:
    config = STOCK_CONFIG(allow_soft_placement=True)
    with graph_opt.install():
        run_config = tf.estimator.RunConfig(session_config=config, model_dir=str(tmp_path))
        tf.estimator.Estimator(model_fn, config=run_config).train(input_fn, steps=2)


def test_train_and_evaluate_and_export(tmp_path: Path) -> None:
    with graph_opt.install(async_config(), infer_io_stage=True):
        run_config = tf.estimator.RunConfig(model_dir=str(tmp_path / "model"))
        estimator = tf.estimator.Estimator(predict_fn, config=run_config)
        tf.estimator.train_and_evaluate(
            estimator,
            tf.estimator.TrainSpec(lambda: dataset(epochs=3), max_steps=12),
            tf.estimator.EvalSpec(input_fn, steps=None, start_delay_secs=0, throttle_secs=0),
        )
        serving = tf.estimator.export.build_raw_serving_input_receiver_fn(
            {
                "user": tf.placeholder(tf.int64, [None], "user"),
                "row": tf.placeholder(tf.int64, [None], "row"),
            }
        )
        assert estimator.export_saved_model(str(tmp_path / "export"), serving)
    assert estimator.get_variable_value("global_step") == 12
