"""Checkpoints and frozen graphs become SavedModels that predict what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.serving.compared_predictions import compare_predictions
from tests.export.served_model import SERVED, served_model, stock_scores
from tests.serving.models_to_serve import of_placeholders

REQUEST = {name: np.array(rows) for name, rows in SERVED.items()}


def served_scores(folder: Path, request: Dict[str, Any]) -> np.ndarray:
    """What the stock graph of an export predicts."""
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(folder))
        signature = meta.signature_def["serving_default"]
        feeds = {signature.inputs[name].name: value for name, value in request.items()}
        scores: np.ndarray = session.run(signature.outputs["scores"].name, feeds)
        return scores


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_training_checkpoint_whose_input_is_an_iterator(
    use_resource: bool, tmp_path: Path
) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = served_model(use_resource=use_resource)
        session.run(tf.global_variables_initializer())
        session.run(model.train_op)
        tf.train.Saver().save(session, str(tmp_path / "model.ckpt"), 1)
        inputs = {"user": model.user.name, "item": model.item.name}
    assert "IteratorGetNext" in inputs["user"]
    exported = graph_opt.export_fused(
        str(tmp_path), str(tmp_path / "served"), inputs=inputs, outputs={"scores": "scores:0"}
    )
    assert len(exported.report.fused) == 2
    np.testing.assert_allclose(
        served_scores(tmp_path / "served", REQUEST), stock_scores(1), rtol=1e-6
    )
    assert compare_predictions(str(tmp_path / "served"), [REQUEST])[0].difference == 0.0
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], str(tmp_path / "served"))
        names = [each.op.name for each in tf.global_variables()]
        assert "dense" in names and not any("Adagrad" in each for each in names)
        ops = {each.type for each in session.graph.get_operations()}
        assert not any("Iterator" in op or op.startswith("Apply") for op in ops)


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_tables_of_a_frozen_graph_are_variables_again(
    use_resource: bool, tmp_path: Path
) -> None:
    with tf.Graph().as_default() as graph, tf.Session() as session:
        model = of_placeholders(use_resource)
        session.run(tf.global_variables_initializer())
        feeds = {model.inputs[name]: rows for name, rows in model.request.items()}
        expected = session.run(model.outputs["scores"], feeds)
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), ["scores"]
        )
    (tmp_path / "frozen.pb").write_bytes(frozen.SerializeToString())
    exported = graph_opt.export_fused(
        str(tmp_path / "frozen.pb"),
        str(tmp_path / "served"),
        inputs={name: name + ":0" for name in model.inputs},
        outputs={"scores": "scores:0"},
    )
    assert len(exported.report.fused) == 4
    np.testing.assert_array_equal(served_scores(tmp_path / "served", model.request), expected)
    assert compare_predictions(str(tmp_path / "served"), [model.request])[0].difference == 0.0


def saved(tmp_path: Path) -> str:
    with tf.Graph().as_default(), tf.Session() as session:
        served_model()
        session.run(tf.global_variables_initializer())
        return str(tf.train.Saver().save(session, str(tmp_path / "model.ckpt")))


@pytest.mark.parametrize(
    "inputs, outputs, message",
    [
        ({}, {"scores": "scores:0"}, "need 'IteratorGetNext' .*, which is no input"),
        ({}, {"scores": "score:0"}, "no tensor 'score:0' for 'scores'"),
        ({}, {"scores": "scores"}, "no tensor 'scores' for 'scores': tensors are called NODE:0"),
        ({}, {"scores": "scores:1"}, "no tensor 'scores:1' for 'scores'"),
        (
            {"item": "IteratorGetNext:0", "user": "IteratorGetNext:2", "users": "users:0"},
            {"scores": "scores:0"},
            "users:0 of the input 'users' cannot be fed",
        ),
        ({}, {}, "is no SavedModel, so say what requests feed and fetch"),
    ],
)
def test_a_wrong_name_is_told(
    inputs: Dict[str, str], outputs: Dict[str, str], message: str, tmp_path: Path
) -> None:
    checkpoint = saved(tmp_path)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        graph_opt.export_fused(checkpoint, str(tmp_path / "served"), inputs=inputs, outputs=outputs)
    assert not (tmp_path / "served").exists()


def test_an_input_may_be_an_output_and_an_output_may_need_few(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    graph_opt.export_fused(
        checkpoint,
        str(tmp_path / "served"),
        inputs=dict(zip(["item", "label", "user"], map("IteratorGetNext:{}".format, range(3)))),
        outputs={"scores": "scores:0", "item": "IteratorGetNext:0"},
    )
    request = {**REQUEST, "label": np.zeros([len(REQUEST["user"])], np.float32)}
    compared = compare_predictions(str(tmp_path / "served"), [request])
    assert {each.output: each.difference for each in compared} == {"scores": 0.0, "item": 0.0}


def test_a_graph_without_its_values_is_told(tmp_path: Path) -> None:
    checkpoint = saved(tmp_path)
    for left in tmp_path.glob("model.ckpt.data*"):
        left.unlink()
    for left in tmp_path.glob("model.ckpt.index"):
        left.unlink()
    inputs = {"user": "IteratorGetNext:2", "item": "IteratorGetNext:0"}
    with pytest.raises(tf.errors.InvalidArgumentError, match="no checkpoint beside it"):
        graph_opt.export_fused(
            checkpoint + ".meta",
            str(tmp_path / "served"),
            inputs=inputs,
            outputs={"scores": "scores:0"},
        )


def test_a_saved_model_has_its_own_names(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        model = of_placeholders()
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "m"), model.inputs, model.outputs)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a SavedModel has signatures"):
        graph_opt.export_fused(str(tmp_path / "m"), str(tmp_path / "s"), inputs={"f0": "f0:0"})
