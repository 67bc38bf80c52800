"""Monitored sessions and `tf.estimator` with deferred updates: checkpoints, summaries, exports."""

from __future__ import annotations

import contextlib
import glob
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.release_features import needs_estimators
from tests.session.deferred_model import (
    USERS,
    DeferredModel,
    ModelOptions,
    assert_same,
    dataset,
    deferred_model,
)
from tests.session.deferred_scripts import all_values, train, values_in
from tests.session.deferred_sessions import assert_deferred, fused_config

STEPS, EVERY = 23, 7


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    yield
    graph_opt.uninstall()
    tf.summary.FileWriterCache.clear()


class Fetching(tf.train.SessionRunHook):
    """Fetches the whole table before some steps, as hooks that look at weights do."""

    def __init__(self) -> None:
        self.seen: List[Any] = []
        self._table: Any = None

    def begin(self) -> None:
        self._table = tf.get_default_graph().get_collection(tf.GraphKeys.GLOBAL_VARIABLES, "users")

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.seen.append(session.run(self._table[0]))

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if len(self.seen) < 5:
            self.seen.append(run_context.session.run(self._table[0]))

    def end(self, session: Any) -> None:
        self.seen.append(session.run(self._table[0]))


def trajectory(options: ModelOptions) -> List[Dict[str, Any]]:
    """All values after each step with TensorFlow."""
    with tf.Graph().as_default():
        model = deferred_model(options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = [all_values(session)]
            for _ in range(STEPS):
                train(session, model, 1)
                values.append(all_values(session))
    return values


def checked_checkpoints(folder: Path, expected: List[Dict[str, Any]]) -> None:
    paths = glob.glob(str(folder / "model.ckpt-*.index"))
    steps = sorted(int(path.rpartition("-")[2].partition(".")[0]) for path in paths)
    assert len(steps) >= STEPS // EVERY
    for step in steps:
        found = values_in(str(folder / "model.ckpt-{}".format(step)))
        assert_same(found, expected[step], what="checkpoint {}".format(step))


def summaries_in(folder: Path) -> List[Tuple[int, float]]:
    (path,) = glob.glob(str(folder / "events.out.tfevents.*"))
    return [
        (event.step, value.simple_value)
        for event in tf.train.summary_iterator(path)
        for value in event.summary.value
        if value.tag == "weight"
    ]


@pytest.mark.parametrize("use_resource", slow_but([False, True], True), ids=["ref", "resource"])
def test_checkpoints_and_summaries_of_a_prefetching_session_are_those_of_tensorflow(
    use_resource: bool, tmp_path: Path
) -> None:
    options = ModelOptions(use_resource=use_resource, linear=True, clip=True, decay=True)
    expected = trajectory(options)
    row = USERS - 1  # looked up seldom: it moves all the same
    model = deferred_model(options)
    tf.summary.scalar("weight", model.users[row, 0])
    hook = Fetching()
    with graph_opt.train.MonitoredTrainingSession(
        config=fused_config(prefetch=True),
        checkpoint_dir=str(tmp_path),
        save_checkpoint_steps=EVERY,
        save_summaries_steps=3,
        hooks=[hook, tf.train.StopAtStepHook(STEPS)],
    ) as session:
        while not session.should_stop():
            session.run(model.train_op)
    assert_deferred(model.loss.graph)
    tables = [values["users"] for values in expected]
    assert_same(hook.seen, [*tables[:5], tables[-1]])
    checked_checkpoints(tmp_path, expected)
    summaries = summaries_in(tmp_path)
    assert len(summaries) >= STEPS // 3
    for step, weight in summaries:  # TensorFlow's, too, may be of before or after the step
        values = [tables[step][row, 0], tables[step - 1][row, 0]]
        assert np.min(np.abs(np.subtract(values, weight))) < 1e-5 * np.abs(tables[step][row]).max()


def test_an_installed_session_sees_what_it_sees_with_tensorflow(tmp_path: Path) -> None:
    options = ModelOptions()
    expected = trajectory(options)[STEPS]
    with graph_opt.install(fused_config()):
        model = deferred_model(options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            train(session, model, STEPS)
            assert_same(all_values(session), expected)
        assert_deferred(model.loss.graph)


def model_fn(features: Dict[str, Any], mode: str) -> Any:
    model: DeferredModel = deferred_model(ModelOptions(), features=features)
    served = tf.estimator.export.PredictOutput({"scores": model.scores})
    return tf.estimator.EstimatorSpec(
        mode,
        predictions={"scores": model.scores},
        loss=model.loss,
        train_op=model.train_op,
        eval_metric_ops={"mean": tf.metrics.mean(model.scores)},
        export_outputs={"serving_default": served},
    )


def serving_inputs() -> Any:
    shapes = {"user": (tf.int64, [6]), "item": (tf.int64, [6, 3]), "label": (tf.float32, [6])}
    fed = {name: tf.placeholder(dtype, shape) for name, (dtype, shape) in shapes.items()}
    return tf.estimator.export.ServingInputReceiver(fed, fed)


def estimated(folder: Path, config: Any) -> Dict[str, Any]:
    """Trains, evaluates, predicts, trains on and exports."""
    run_config = tf.estimator.RunConfig(
        str(folder), save_checkpoints_steps=EVERY, session_config=config, keep_checkpoint_max=None
    )
    estimator = tf.estimator.Estimator(model_fn, config=run_config)
    estimator.train(lambda: dataset(40), steps=STEPS)
    seen: Dict[str, Any] = {}
    metrics = estimator.evaluate(lambda: dataset(5), steps=5)
    seen["mean"], seen["loss"] = metrics["mean"], metrics["loss"]
    estimator.train(lambda: dataset(60, STEPS), steps=STEPS)
    predicted = estimator.predict(lambda: dataset(5))
    seen["scores"] = np.stack([each["scores"] for each in predicted])
    exported = estimator.export_saved_model(str(folder / "exported"), serving_inputs)
    exported = exported.decode("utf-8") if isinstance(exported, bytes) else exported
    seen["exported"] = values_in(exported + "/variables/variables")
    for path in glob.glob(str(folder / "model.ckpt-*.index")):
        name = path[: -len(".index")]
        seen[name.rpartition("-")[2]] = values_in(name)
    return seen


@needs_estimators
@pytest.mark.slow
def test_an_estimator_trains_evaluates_predicts_and_exports_as_with_tensorflow(
    tmp_path: Path,
) -> None:
    with contextlib.suppress(AttributeError):
        tf.logging.set_verbosity(tf.logging.ERROR)
    stock = estimated(tmp_path / "stock", None)
    with graph_opt.install(fused_config()):
        found = estimated(tmp_path / "ours", None)
    assert any("fused" in str(report) for report in graph_opt.session_reports())
    assert_same(found, stock)
