"""Sessions with fuse_inference on served models of all kinds: predictions are TensorFlow's."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.contrib import predictor
from tests.serving.models_to_serve import MODELS, Arrays, save
from tests.session.small_model import report_on


def fusing() -> Any:
    made = graph_opt.ConfigProto()
    options = made.graph_options.optimizer_options
    options.do_group_embedding = True
    options.group_embedding_options.fuse_inference = True
    return made


def loaded(make_session: Callable[..., Any], folder: Path, request: Arrays) -> Any:
    """A session with the model, and a function that sends it the request."""
    graph = tf.Graph()
    session = make_session(graph=graph)
    with graph.as_default():
        meta_graph = tf.saved_model.loader.load(session, ["serve"], str(folder))
    signature = meta_graph.signature_def["serving_default"]
    feeds = {signature.inputs[name].name: value for name, value in request.items()}
    fetches = {name: info.name for name, info in signature.outputs.items()}
    return session, lambda: session.run(fetches, feeds)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_saved_model_in_a_session(name: str, tmp_path: Path) -> None:
    request = save(MODELS[name], tmp_path / "model")
    stock, expected = loaded(tf.Session, tmp_path / "model", request)
    ours, found = loaded(
        lambda graph: graph_opt.Session(graph=graph, config=fusing()), tmp_path / "model", request
    )
    with stock, ours:
        values = found()
        for output, value in expected().items():
            np.testing.assert_array_equal(values[output], value)
    report = report_on(ours.graph)
    assert report.fused and not any(lookup.refusal for lookup in report.lookups)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_predictor_of_an_installed_config(name: str, tmp_path: Path) -> None:
    request = save(MODELS[name], tmp_path / "model")
    expected = predictor.from_saved_model(str(tmp_path / "model"))(request)
    with graph_opt.install(fusing()):
        predict = predictor.from_saved_model(str(tmp_path / "model"))
        found = predict(request)
    assert report_on(predict.graph).fused
    for output, value in expected.items():
        np.testing.assert_array_equal(found[output], value)


def asked_by_threads(ask: Callable[[], Any]) -> List[Any]:
    """What four threads get that ask five times each, at the same time."""
    answers: List[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(ask() for _ in range(5))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_several_threads_call_one_session(tmp_path: Path) -> None:
    request = save(MODELS["resources"], tmp_path / "model")
    stock, expected = loaded(tf.Session, tmp_path / "model", request)
    ours, found = loaded(
        lambda graph: graph_opt.Session(graph=graph, config=fusing()), tmp_path / "model", request
    )
    with stock, ours:
        wanted = expected()
        answers = asked_by_threads(found)
    assert len(answers) == 20
    for answer in answers:
        np.testing.assert_array_equal(answer["scores"], wanted["scores"])
