"""DeepRec's names after `install`, in one process without Horovod."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.embedding.marked_tables import marked_tables
from graph_opt.sharding.in_process import InProcessGroup
from graph_opt.sharding.transport_in_use import communicating_through
from tests.release_features import needs_estimators

MODULE = "tensorflow.python.distribute.group_embedding_collective_strategy"
KEY = tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY


@pytest.fixture
def strategy() -> Iterator[Any]:
    with graph_opt.install(sok=True):
        yield importlib.import_module(MODULE).CollectiveStrategy()


def scores_of(strategy: Any, ids: tf.Tensor) -> tf.Tensor:
    with strategy.embedding_scope():
        partitioner = tf.fixed_size_partitioner(num_shards=strategy.world_size)
        with tf.variable_scope("embedding", partitioner=partitioner):
            table = tf.get_variable("table", [20, 4])
    rows = tf.nn.embedding_lookup(table, ids)
    return tf.layers.dense(rows, 1, name="dense")[:, 0]


def model_fn(features: Any, labels: Any, mode: str, params: Any) -> Any:
    scores = scores_of(params["strategy"], features["ids"])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": scores})
    loss = tf.reduce_mean(tf.square(scores - labels))
    train = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)


def input_fn() -> Any:
    ids = np.arange(200) % 20
    data = ({"ids": ids}, (ids % 2).astype(np.float32))
    return tf.data.Dataset.from_tensor_slices(data).batch(10)


def serving_fn() -> Any:
    ids = tf.placeholder(tf.int64, [None])
    return tf.estimator.export.ServingInputReceiver({"ids": ids}, {"ids": ids})


def served(folder: str, ids: np.ndarray) -> Dict[str, np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        signature = tf.saved_model.load(session, ["serve"], folder).signature_def[KEY]
        outputs = {name: info.name for name, info in signature.outputs.items()}
        result: Dict[str, np.ndarray] = session.run(outputs, {signature.inputs["ids"].name: ids})
        return result


@needs_estimators
def test_an_estimator_trains_evaluates_and_exports(strategy: Any, tmp_path: Path) -> None:
    estimator = strategy.estimator(
        model_fn, model_dir=str(tmp_path / "model"), params={"strategy": strategy}
    )
    metrics, _ = estimator.train_and_evaluate(
        tf.estimator.TrainSpec(input_fn, max_steps=20),
        tf.estimator.EvalSpec(input_fn, steps=2, start_delay_secs=0),
        eval_every_n_iter=10,
    )
    assert metrics["global_step"] == 20
    folder = estimator.export_saved_model(str(tmp_path / "exported"), serving_fn).decode()

    def signature() -> Any:
        ids = tf.placeholder(tf.int64, [None])
        return tf.saved_model.predict_signature_def(
            {"ids": ids}, {"score": scores_of(strategy, ids)}
        )

    asset = tmp_path / "vocabulary.txt"
    asset.write_text("words")
    other = strategy.export_saved_model(
        str(tmp_path / "served"), str(tmp_path / "model"), signature, {"words": str(asset)}
    )
    assert (tmp_path / "served" / "assets.extra" / "words").read_text() == "words"
    expected = [one["score"] for one in estimator.predict(lambda: input_fn().take(1))]
    for one in (folder, other):
        np.testing.assert_allclose(served(one, np.arange(10))["score"], expected, rtol=1e-5)


def test_what_an_export_needs_is_named(strategy: Any, tmp_path: Path) -> None:
    def signature() -> Any:
        ids = tf.placeholder(tf.float32)
        product = ids * tf.get_variable("one", [])
        return tf.saved_model.predict_signature_def({"ids": ids}, {"product": product})

    folder = str(tmp_path / "served")
    with pytest.raises(ValueError, match="needs signature_def_fn"):
        strategy.export_saved_model(folder, str(tmp_path))
    with pytest.raises(tf.errors.NotFoundError, match="no checkpoint in '{}'".format(tmp_path)):
        strategy.export_saved_model(folder, str(tmp_path), signature)
    tf.get_variable("two", [])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver().save(session, str(tmp_path / "model"))
    with pytest.raises(tf.errors.NotFoundError, match="no variable 'one'"):
        strategy.export_saved_model(folder, prefix, signature)
    with pytest.raises(ValueError, match="returned no signature"):
        strategy.export_saved_model(folder, prefix, dict)
    with pytest.raises(FileExistsError, match="export to another one"):
        strategy.export_saved_model(str(tmp_path), prefix, signature)
    assert sorted(one.name for one in tmp_path.iterdir() if "served" in one.name) == []


def test_ranks_are_numbers_that_may_be_called(strategy: Any) -> None:
    assert strategy.world_size == strategy.world_size() == 1
    assert strategy.rank == strategy.rank() == strategy.local_rank() == 0
    backend = importlib.import_module("hybridbackend.tensorflow")
    assert (backend.context.rank, backend.context.world_size) == (0, 1)
    with backend.scope(), backend.embedding_scope():
        assert (
            len(list(tf.get_variable("t", [4, 2], partitioner=tf.fixed_size_partitioner(2)))) == 2
        )
    with pytest.raises(AttributeError, match="only scope, embedding_scope"):
        backend.function()


def test_tables_of_several_ranks_are_made_whole_and_marked(strategy: Any) -> None:
    parted = tf.fixed_size_partitioner(2)

    seen = []

    def noted(getter: Any, *arguments: Any, **named: Any) -> Any:
        seen.append(named["name"])
        return getter(*arguments, **named)

    with communicating_through(InProcessGroup(2).transport(0)), tf.variable_scope(
        "model", custom_getter=noted
    ):
        with strategy.embedding_scope():
            tf.get_variable("table", [4, 2], partitioner=parted)
            tf.get_variable("frozen", [4, 2], partitioner=parted, trainable=False)
            tf.layers.dense(tf.ones([1, 2]), 2)
        tf.layers.dense(tf.ones([1, 2]), 2)
        tf.get_variable("other", [4, 2], partitioner=parted)
    assert [one.op.name for one in tf.global_variables()] == [
        *("model/table", "model/frozen/part_0", "model/frozen/part_1"),
        *("model/dense/kernel", "model/dense/bias", "model/dense_1/kernel", "model/dense_1/bias"),
        *("model/other/part_0", "model/other/part_1"),
    ]
    assert len(seen) == 7
    marked = [one.op.name for one in marked_tables(tf.get_default_graph())]
    assert marked == ["model/table", "model/dense/kernel"]


def test_strategies_are_chosen_by_name(capfd: pytest.CaptureFixture[str]) -> None:
    with graph_opt.install():
        experimental = tf.config.experimental
        with pytest.raises(ValueError, match="'ring'; choose one of collective, localized"):
            experimental.enable_distributed_strategy("ring")
        for name in ("collective", "localized", "parameter_server"):
            experimental.enable_distributed_strategy(strategy=name)
            experimental.enable_group_embedding(fusion_type=name)
    assert "'collective' has one rank: tables stay whole" in capfd.readouterr().err
    assert not hasattr(tf.config.experimental, "enable_distributed_strategy")
    assert MODULE not in sys.modules


def test_backends_have_names(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for backend in ("sok", "hb"):
        monkeypatch.setenv("COLLECTIVE_STRATEGY", backend)
        type(strategy)()
    monkeypatch.setenv("COLLECTIVE_STRATEGY", "ps")
    with pytest.raises(ValueError, match="COLLECTIVE_STRATEGY is 'ps'; choose one of sok, hb"):
        type(strategy)()
