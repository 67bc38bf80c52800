"""What scripts export while training with both flags loads in a process without graph_opt."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.export.served_model import (
    SERVED,
    ServedModel,
    batches,
    config,
    load_without_graph_opt,
    served_model,
    stock_scores,
)
from tests.quick_cases import slow_but
from tests.session.small_model import report_on

Request = Dict[str, Any]
Expected = Tuple[int, Request]  # steps trained until then, and what to load


def train_monitored(folder: Path) -> Iterator[Expected]:
    """Checkpoints, `graph.pbtxt` and the event file of a monitored session."""
    model = served_model()
    directory = str(folder / "monitored")
    with graph_opt.train.MonitoredTrainingSession(
        config=config(), checkpoint_dir=directory, save_checkpoint_steps=2
    ) as session:
        for _ in range(4):
            session.run(model.train_op)
    report = report_on(model.scores.graph)
    assert len(report.fused) == 2 and report.moved
    feed = {"fetch": model.scores.name, "feed": model.feeds()}
    for step in (2, 4):
        path = "{}/model.ckpt-{}".format(directory, step)
        yield step, {"kind": "checkpoint", "path": path, **feed}
        graph = {"kind": "graph", "path": directory + "/graph.pbtxt", "checkpoint": path}
        yield step, {**graph, **feed}
    events = {"kind": "events", "path": directory + "/events.out.tfevents.*", "checkpoint": path}
    yield 4, {**events, **feed}
    start = {"kind": "checkpoint", "path": directory + "/model.ckpt-0", **feed}
    yield 4, {**start, "train_steps": 4, "train_op": model.train_op.name}


def train_and_export(
    folder: Path, kind: str, made: Callable[[], ServedModel]
) -> Iterator[Expected]:
    """Everything that a script can export from an open session, midway and at the end."""
    model = made()
    here = folder / kind
    with graph_opt.Session(config=config(infer_io_stage=kind != "staged")) as session:
        session.run(tf.global_variables_initializer())
        yield from trained_on(session, model, here / "model.ckpt-0")
        session.run(model.train_op)
        yield from saved_models(session, model, here / "1", 1)
        session.run(model.train_op)
        session.run(model.train_op)
        yield from saved_models(session, model, here / "3", 3)
        if kind in ("fused", "group"):
            yield from graphs(session, model, here / "3", 3)


def trained_on(session: Any, model: ServedModel, path: Path) -> Iterator[Expected]:
    """A checkpoint whose graph the loading process trains further."""
    tf.train.Saver().save(session, str(path))
    request = {"kind": "checkpoint", "path": str(path), "train_op": model.train_op.name}
    feed = {"fetch": model.scores.name, "feed": model.feeds()}
    yield 4, {**request, "train_steps": 4, **feed}


def saved_models(session: Any, model: ServedModel, folder: Path, step: int) -> Iterator[Expected]:
    inputs, outputs = {"user": model.user, "item": model.item}, {"scores": model.scores}
    served = {"feed": SERVED, "fetch": "scores", "tags": ["serve"], "kind": "saved_model"}
    tf.saved_model.simple_save(session, str(folder / "simple"), inputs, outputs)
    yield step, {**served, "path": str(folder / "simple")}

    builder = tf.saved_model.Builder(str(folder / "stripped"))
    signature = tf.saved_model.predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(
        session, ["serve"], {"serving_default": signature}, clear_devices=True,
        strip_default_attrs=True,
    )  # fmt: skip
    builder.save()
    yield step, {**served, "path": str(folder / "stripped")}


def graphs(session: Any, model: ServedModel, folder: Path, step: int) -> Iterator[Expected]:
    feed = {"fetch": model.scores.name, "feed": model.feeds()}
    path = tf.train.Saver().save(session, str(folder / "model.ckpt"))
    yield step, {"kind": "checkpoint", "path": path, **feed}
    tf.train.export_meta_graph(path + "-bare.meta", clear_devices=True)
    for suffix in ("index", "data-00000-of-00001"):
        Path("{}-bare.{}".format(path, suffix)).write_bytes(
            Path("{}.{}".format(path, suffix)).read_bytes()
        )
    yield step, {"kind": "checkpoint", "path": path + "-bare", **feed}

    tf.io.write_graph(session.graph, str(folder), "graph.pbtxt")
    graph = {"kind": "graph", "path": str(folder / "graph.pbtxt"), "checkpoint": path}
    yield step, {**graph, **feed}

    with tf.summary.FileWriter(str(folder / "events"), session.graph):
        pass
    events = {"kind": "events", "path": str(folder / "events" / "*"), "checkpoint": path}
    yield step, {**events, **feed}

    for name, graph_def in (
        ("frozen", session.graph_def),
        ("extracted", tf.graph_util.extract_sub_graph(session.graph_def, [model.scores.op.name])),
        ("inference", tf.graph_util.remove_training_nodes(session.graph.as_graph_def())),
    ):
        frozen = tf.graph_util.convert_variables_to_constants(
            session, graph_def, [model.scores.op.name]
        )
        (folder / name).write_bytes(frozen.SerializeToString())
        yield step, {"kind": "frozen", "path": str(folder / name), **feed}


def staged_model() -> ServedModel:
    features = tf.data.make_one_shot_iterator(batches()).get_next()
    return served_model(graph_opt.staged(features, capacity=2, num_threads=2))


SCRIPTS: Dict[str, Callable[[Path], Iterator[Expected]]] = {
    "monitored": train_monitored,
    "fused": lambda folder: train_and_export(folder, "fused", served_model),
    "reference": lambda folder: train_and_export(
        folder, "reference", lambda: served_model(use_resource=False)
    ),
    "staged": lambda folder: train_and_export(folder, "staged", staged_model),
    "group": lambda folder: train_and_export(folder, "group", lambda: served_model(group=True)),
}


# Of groups and of other kinds of variables, test_stock_groups.py and test_stock_updates.py tell.
@pytest.mark.parametrize("script", slow_but(SCRIPTS, "fused"))
def test_exports_load_without_graph_opt_and_predict_as_stock_training_does(
    script: str, tmp_path: Path
) -> None:
    asked = list(SCRIPTS[script](tmp_path))
    assert len(asked) >= 5
    results = load_without_graph_opt([request for _, request in asked], tmp_path)
    for (step, request), result in zip(asked, results):
        what = "{kind} {path}".format(**request)
        assert not isinstance(result, str), "{}: {}".format(what, result)
        np.testing.assert_allclose(result, stock_scores(step), rtol=1e-5, err_msg=what)
