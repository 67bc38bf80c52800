"""The page of a run: steps of main are recorded by themselves, some with their waits."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session import step_recording
from graph_opt.session.step_listeners import stop_telling
from tests.quick_cases import slow_but
from tests.report_page.page_models import content_of, lookups_config, node_names, trained_model


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(step_recording, "_recording", step_recording._Recording())
    step_recording.record_steps()
    yield
    stop_telling(step_recording._note_begun)


def _content() -> Any:
    page = step_recording.page_of_run("script", ["session 1: done"])
    assert page is not None
    return content_of(page.html())


@pytest.mark.parametrize("monitored", slow_but([False, True], True))
def test_steps_of_main_and_their_waits_are_on_the_page(recording: None, monitored: bool) -> None:
    train = trained_model()
    if monitored:
        with graph_opt.train.MonitoredTrainingSession(config=lookups_config()) as session:
            for _ in range(40):
                session.run(train)
    else:
        with graph_opt.Session(config=lookups_config()) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(40):
                session.run(train, options=None)
    content = _content()
    lanes = {lane["stage"]: lane for lane in content["timeline"]["lanes"]}
    assert set(lanes) == {"async_embedding_io", "async_embedding", "main"}
    assert {lane["region"] for lane in lanes.values()} == {"io", "prefetch", "main"}
    steps = lanes["main"]["steps"]
    assert len(steps) == 40
    assert [number for _, _, number, *waits in steps if waits] == list(range(16, 40))
    assert any(len(step) > 3 for step in lanes["async_embedding"]["steps"])
    assert ["of the run", "session 1: done"] in content["overview"]["notes"]


def test_the_page_is_of_the_session_with_most_steps(recording: None) -> None:
    assert step_recording.page_of_run("script", []) is None
    for name, steps in (("long", 3), ("short", 1)):
        with tf.Graph().as_default():
            weight = tf.get_variable(name, [2])
            train = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(weight))
            with graph_opt.Session(config=lookups_config()) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(steps):
                    session.run(train)
                session.run(weight)
    content = _content()
    (lane,) = content["timeline"]["lanes"]
    assert len(lane["steps"]) == 3
    names = node_names(content["graph"])
    assert "long" in names and "short" not in names


def test_nothing_is_recorded_unless_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_recording, "_recording", step_recording._Recording())
    weight = tf.get_variable("weight", [2])
    with graph_opt.Session(config=lookups_config()) as session:
        session.run(weight.initializer)
        session.run(tf.train.GradientDescentOptimizer(0.1).minimize(weight))
    assert step_recording.page_of_run("script", []) is None
