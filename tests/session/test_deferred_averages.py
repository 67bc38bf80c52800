"""Averages of tables over time: those of TensorFlow's own sessions, at the cost of rows."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session import averaged_scripts as scripts
from tests.session.deferred_model import ModelOptions, assert_same, deferred_model
from tests.session.deferred_sessions import fused_config
from tests.session.parameter_servers import free_addresses, parameter_servers
from tests.session.small_model import report_on
from tests.session.test_deferred_elsewhere import Question, answers

_ON_SERVER = "/job:ps/task:0"
MODELS = {
    "adam": ModelOptions(),
    "adam of resources": ModelOptions(use_resource=True, clip=True, decay=True),
    "adam of parts": ModelOptions(parts=3),
    "adagrad": ModelOptions("adagrad"),
    "momentum of resources": ModelOptions("momentum", use_resource=True),
}


def opened(**arguments: Any) -> Any:
    return graph_opt.Session(config=fused_config(), **arguments)


def assert_averages_deferred() -> None:
    """Asserts that the last graph rewritten has no reader that makes its steps dense."""
    report = graph_opt.report()
    assert report is not None
    assert {lookup.average for lookup in report.fused_lookups if lookup.update != "none"} == {
        "deferred"
    }, str(report)
    assert not [reader for reader in report.dense_readers if reader.in_each_step], str(report)


@pytest.mark.parametrize(
    "model",
    slow_but(MODELS, "adam of parts"),
)
def test_averages_are_those_of_tensorflow(model: str) -> None:
    options = MODELS[model]
    for counted in (False, True):
        expected = scripts.in_every_step(tf.Session, options, counted)
        assert_same(scripts.in_every_step(opened, options, counted), expected)
        assert_averages_deferred()
    assert_same(
        scripts.now_and_then(opened, options) if options.parts == 1 else [],
        scripts.now_and_then(tf.Session, options) if options.parts == 1 else [],
    )


@pytest.mark.slow
def test_averages_are_restored_where_there_is_no_graph_opt(tmp_path: Path) -> None:
    questions = []
    for name, options in (("ref", ModelOptions()), ("kept", ModelOptions("adagrad", True))):
        asked = dataclasses.asdict(options)
        folders = [tmp_path / name, tmp_path / (name + " by TensorFlow")]
        for folder in folders:
            folder.mkdir()
        saved = scripts.save(opened, options, folders[0])
        with tf.Graph().as_default():
            expected = scripts.evaluate(asked, scripts.save(tf.Session, options, folders[1]))
        questions.append(
            Question({"kind": "evaluate", "options": asked, "checkpoint": saved}, expected)
        )
    for question, answer in zip(questions, answers(questions, tmp_path)):
        assert_same(answer, question.expected)


@pytest.fixture(scope="module")
def worker() -> Iterator[str]:
    """The target of a worker in this process, with a parameter server in another."""
    ps, own = free_addresses(2)
    addresses = {"ps": [ps], "worker": [own]}
    with parameter_servers(addresses, has_ops=[True]):
        yield tf.train.Server(tf.train.ClusterSpec(addresses), job_name="worker").target


@pytest.mark.parametrize("optimizer", slow_but(["adam", "adagrad"], "adam"))
def test_averages_on_servers(worker: str, optimizer: str) -> None:
    options = ModelOptions(optimizer, use_resource=True, device=_ON_SERVER)
    expected = scripts.in_every_step(lambda: tf.Session(worker), options, True)
    tf.Session.reset(worker)
    found = scripts.in_every_step(
        lambda: graph_opt.Session(worker, config=fused_config()), options, True
    )
    assert_averages_deferred()
    tf.Session.reset(worker)
    assert_same(found, expected)


def test_references_that_travel_are_averaged_by_tensorflow(worker: str) -> None:
    """They are read before the update of their step: at another moment than resources."""
    options = ModelOptions(device=_ON_SERVER)
    with tf.Graph().as_default() as graph:
        model = deferred_model(options)
        average = tf.train.ExponentialMovingAverage(0.9)
        with tf.device("/job:worker/task:0"), tf.control_dependencies([model.train_op]):
            op = average.apply([model.users])
        with graph_opt.Session(worker, config=fused_config()) as session:
            scripts.initialize(session)
            session.run(op)
        report = report_on(graph)
        (refusal,) = {
            tuple(sorted(refusal.items()))
            for lookup in report.fused_lookups
            for refusal in lookup.refusals
        }
        assert dict(refusal)["code"] == "average_not_deferrable"
        assert re.search("resource variables", str(refusal))
    tf.Session.reset(worker)


def test_averages_may_have_no_value_while_nothing_moves_them() -> None:
    with tf.Graph().as_default():
        averaged = scripts.averaged_model(ModelOptions(), order="before")
        names = [each.op.name for each in tf.global_variables()]
        known = [each for each in tf.global_variables() if "ExponentialMoving" not in each.op.name]
        assert len(known) < len(names)
        with opened() as session:
            session.run(tf.variables_initializer(known))
            for _ in range(3):
                session.run(averaged.model.train_op)
            before = session.run(averaged.model.users)
            scripts.initialize(session)
            session.run(averaged.op)
            shadow = averaged.average.average(averaged.model.users)
            assert np.isfinite(before).all() and np.isfinite(session.run(shadow)).all()


def test_a_report_names_averages_that_stay() -> None:
    with tf.Graph().as_default() as graph:
        averaged = scripts.averaged_model(ModelOptions())
        second = tf.train.ExponentialMovingAverage(0.5, name="second")
        other = second.apply([averaged.model.users])
        with opened() as session:
            scripts.initialize(session)
            session.run(
                tf.variables_initializer(
                    [v for v in tf.global_variables() if v.op.name.endswith("/second")]
                )
            )
            session.run([averaged.op, other])
        averages = {lookup.tables: lookup.average for lookup in report_on(graph).fused_lookups}
    assert averages == {("users",): "stock", ("items",): "deferred"}
