"""What `tf.estimator` exports while graph_opt is installed loads in a process without it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.export.served_model import (
    SERVED,
    batches,
    config,
    load_without_graph_opt,
    served_model,
    stock_scores,
)
from tests.release_features import needs_estimators

pytestmark = needs_estimators


@pytest.fixture(autouse=True)
def uninstalled(threads_left_behind: Callable[[], List[str]]) -> Iterator[None]:
    yield
    graph_opt.uninstall()
    tf.summary.FileWriterCache.clear()


def model_fn(features: Dict[str, Any], labels: Any, mode: str) -> Any:
    del labels  # In training, the labels come with the features.
    if "label" not in features:
        features = dict(features, label=tf.zeros(tf.shape(features["user"])))
    model = served_model(features)
    outputs = {"scores": model.scores}
    return tf.estimator.EstimatorSpec(
        mode,
        predictions=outputs,
        loss=tf.reduce_mean(tf.square(model.scores - features["label"])),
        train_op=model.train_op,
        export_outputs={"serving_default": tf.estimator.export.PredictOutput(outputs)},
    )


def serving_input() -> Any:
    user = tf.placeholder(tf.int64, [None], "user")
    item = tf.placeholder(tf.int64, [None, 2], "item")
    received = {"user": user, "item": item}
    return tf.estimator.export.ServingInputReceiver(received, received)


def supervised_input() -> Any:
    user = tf.placeholder(tf.int64, [None])
    item = tf.placeholder(tf.int64, [None, 2])
    label = tf.placeholder(tf.float32, [None])
    build = tf.estimator.experimental.build_raw_supervised_input_receiver_fn
    return build({"user": user, "item": item, "label": label}, {"truth": label})


@pytest.mark.slow
def test_every_way_of_exporting_an_estimator(tmp_path: Path) -> None:
    asked = config()
    asked.graph_options.optimizer_options.group_embedding_options.fuse_inference = True
    with graph_opt.install():
        run_config = tf.estimator.RunConfig(str(tmp_path / "model"), session_config=asked)
        estimator = tf.estimator.Estimator(model_fn, config=run_config)
        exporters = [
            tf.estimator.BestExporter("best", serving_input),
            tf.estimator.LatestExporter("latest", serving_input),
            tf.estimator.FinalExporter("final", serving_input),
        ]
        tf.estimator.train_and_evaluate(
            estimator,
            tf.estimator.TrainSpec(batches, max_steps=4),
            tf.estimator.EvalSpec(batches, steps=None, exporters=exporters, throttle_secs=0),
        )
        plain = estimator.export_saved_model(str(tmp_path / "plain"), serving_input)
        receivers = {
            tf.estimator.ModeKeys.PREDICT: serving_input,
            tf.estimator.ModeKeys.EVAL: supervised_input(),
            tf.estimator.ModeKeys.TRAIN: supervised_input(),
        }
        every = estimator.experimental_export_all_saved_models(str(tmp_path / "all"), receivers)
    exported = [Path(path.decode()) for path in (plain, every)]
    exported += [next((tmp_path / "model/export" / e.name).iterdir()) for e in exporters]
    labelled = dict(SERVED, label=[0.0, 1.0, 0.0], truth=[0.0, 1.0, 0.0])
    requests = [request(path, "serve", "serving_default", SERVED, "scores") for path in exported]
    for tag, mode in (("eval", "eval"), ("train", "train")):
        requests.append(request(exported[1], tag, mode, labelled, "predictions/scores"))
    for asked_for, scores in zip(requests, load_without_graph_opt(requests, tmp_path)):
        assert not isinstance(scores, str), (asked_for, scores)
        np.testing.assert_allclose(scores, stock_scores(4), rtol=1e-5, err_msg=str(asked_for))


def request(
    path: Path, tag: str, signature: str, feed: Dict[str, Any], fetch: str
) -> Dict[str, Any]:
    return {
        "kind": "saved_model", "path": str(path), "tags": [tag], "signature": signature,
        "feed": feed, "fetch": fetch,
    }  # fmt: skip
