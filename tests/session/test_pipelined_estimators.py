"""Estimators whose dense weights a stage pulls and pushes: all that they write is stock."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterator

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.passes.pipeline.delayed_training import pipelining
from tests.release_features import needs_estimators
from tests.session.parameter_servers import stock_servers

pytestmark = [pytest.mark.slow, needs_estimators]

X = np.random.RandomState(0).rand(16, 3).astype(np.float32)
Y = X.sum(axis=1, keepdims=True)
OPTIMIZERS: Dict[str, Callable[[], Any]] = {
    "gradient descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "adam": lambda: tf.train.AdamOptimizer(0.05),
}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with a parameter server in a process of its own, which is stock TensorFlow."""
    with stock_servers(1) as target:
        yield target


def training_input() -> Any:
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(2)


def input_to_predict() -> Any:
    return tf.data.Dataset.from_tensor_slices({"x": X[:4]}).batch(2)


def serving_input() -> Any:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    return tf.estimator.export.ServingInputReceiver({"x": x}, {"x": x})


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    hidden = dense(features["x"], 4, seed=3)
    predicted = dense(hidden, 1, seed=4)
    if mode == tf.estimator.ModeKeys.PREDICT:
        output = {"serving_default": tf.estimator.export.PredictOutput({"y": predicted})}
        return tf.estimator.EstimatorSpec(mode, {"y": predicted}, export_outputs=output)
    loss = tf.losses.mean_squared_error(labels, predicted)
    train = params["optimizer"]().minimize(loss, tf.train.get_or_create_global_step())
    metrics = {"error": tf.metrics.mean_absolute_error(labels, predicted)}
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train, eval_metric_ops=metrics)


def dense(inputs: Any, units: int, seed: int) -> Any:
    initializer = tf.random_uniform_initializer(-1, 1, seed=seed)
    return tf.layers.dense(inputs, units, tf.nn.tanh, kernel_initializer=initializer)


def used(target: str, optimizer: str, config: Any, folder: Path) -> Dict[str, Any]:
    """All that an Estimator can do, and what it leaves in its folder."""
    tf.Session.reset(target)
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    run_config = tf.estimator.RunConfig(
        str(folder / "model"),
        session_config=config,
        device_fn=lambda op: setter(op),
        save_checkpoints_steps=3,
        save_summary_steps=2,
        tf_random_seed=1,
    )
    params = {"optimizer": OPTIMIZERS[optimizer]}
    estimator = tf.estimator.Estimator(model_fn, config=run_config, params=params)
    estimator.train(training_input, steps=4)
    estimator.train(training_input, max_steps=7)
    found: Dict[str, Any] = {"evaluated": estimator.evaluate(training_input)}
    found["predicted"] = [one["y"] for one in estimator.predict(input_to_predict)]
    found["trained and evaluated"], _ = tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(training_input, max_steps=12),
        tf.estimator.EvalSpec(training_input, steps=2, start_delay_secs=0, throttle_secs=0),
    )
    exported = estimator.export_saved_model(str(folder / "exported"), serving_input).decode()
    with tf.Graph().as_default() as graph, tf.Session() as session:
        model = tf.saved_model.loader.load(session, ["serve"], exported)
        output = model.signature_def["serving_default"].outputs["y"].name
        found["served"] = session.run(output, {"x:0": X})
        found["exported ops"] = {operation.type for operation in graph.get_operations()}
    files = {path.name for path in (folder / "model").iterdir() if "tfevents" not in path.name}
    found["files"] = files
    reader = tf.train.load_checkpoint(str(folder / "model"))
    for name in reader.get_variable_to_shape_map():
        found[name] = reader.get_tensor(name)
    return found


@pytest.mark.parametrize("optimizer", list(OPTIMIZERS))
def test_all_that_an_estimator_does_and_writes_is_stock(
    target: str, optimizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps({"session_master": target}))
    plain = tf.ConfigProto()
    plain.graph_options.rewrite_options.disable_meta_optimizer = True
    found = []
    for number, config in enumerate((plain, pipelining(staleness=0), pipelining())):
        ours = graph_opt.install() if number else contextlib.nullcontext()
        with ours:
            found.append(used(target, optimizer, config, tmp_path / str(number)))
    assert len({str(sorted(each)) for each in found}) == 1
    expected, current, stale = found
    for name, value in expected.items():
        np.testing.assert_equal(current[name], value, err_msg=name)
    for name in ("files", "exported ops", "global_step"):
        np.testing.assert_equal(stale[name], expected[name], err_msg=name)
