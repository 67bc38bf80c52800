"""What other processes, without graph_opt, see of deferred tables: checkpoints, exports, servers.

One such process answers all questions, at the end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.reporting.warnings_given import warnings_about
from graph_opt.session.features.deferred_rows import flush_deferred
from tests.forked_programs import run_script
from tests.session.deferred_model import (
    DeferredModel,
    ModelOptions,
    assert_same,
    deferred_model,
)
from tests.session.deferred_scripts import all_values, train, values_in
from tests.session.deferred_sessions import assert_deferred, fused_config
from tests.session.parameter_servers import free_addresses, parameter_servers

_PROGRAM = Path(__file__).with_name("stock_program.py")
_ON_SERVER = "/job:ps/task:0"
SERVED = {"user": [3, 30, 11, 0, 7, 59], "item": [[1, 2, 3], [89, 0, 40], [17, 40, 5]] * 2}
BEFORE, AFTER = 9, 7


class Question(NamedTuple):
    """What to ask a process without graph_opt, and what it must answer."""

    request: Dict[str, Any]
    expected: Any


def answers(questions: List[Question], folder: Path) -> List[Any]:
    """What a process without graph_opt answers."""
    asked, answered = folder / "asked.pickle", folder / "answered.pickle"
    asked.write_bytes(pickle.dumps([question.request for question in questions]))
    ran = run_script(_PROGRAM, folder, str(asked), str(answered))
    assert ran.returncode == 0, ran.stderr
    found: List[Any] = pickle.loads(answered.read_bytes())
    return found


def stock_values(options: ModelOptions, *stops: int) -> List[Dict[str, Any]]:
    """All values after these numbers of steps with TensorFlow, and scores for `SERVED`."""
    found = []
    with tf.Graph().as_default():
        model = deferred_model(options)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for steps in np.diff([0, *stops]):
                train(session, model, steps)
                found.append(all_values(session))
                found[-1]["scores"] = session.run(model.scores, feeds_of(model))
    return found


def feeds_of(model: DeferredModel) -> Dict[Any, Any]:
    return {model.user_ids: SERVED["user"], model.item_ids: SERVED["item"]}


def save_here(options: ModelOptions, folder: Path) -> Iterator[Question]:
    """A checkpoint and a SavedModel of a session that trains, and a checkpoint taken midway."""
    at_save, at_end = stock_values(options, BEFORE, BEFORE + AFTER)
    scores = at_end.pop("scores")
    del at_save["scores"]
    asked = dataclasses.asdict(options)
    with tf.Graph().as_default() as graph:
        model = deferred_model(options)
        saver = tf.train.Saver()
        with graph_opt.Session(config=fused_config()) as session:
            session.run(tf.global_variables_initializer())
            midway = saver.save(session, str(folder / "fresh"))
            train(session, model, BEFORE)
            path = saver.save(session, str(folder / "midway"))
            train(session, model, AFTER)
            assert_same(session.run(model.scores, feeds_of(model)), scores)
            inputs = {"user": model.user_ids, "item": model.item_ids}
            exported = str(folder / "exported")
            tf.saved_model.simple_save(session, exported, inputs, {"scores": model.scores})
            assert_same(values_in(exported + "/variables/variables"), at_end)
        assert_deferred(graph)
        train_op = model.train_op.name
    request = {"kind": "train_on", "options": asked, "checkpoint": path}
    expected = {"restored": at_save, "trained": at_end}
    yield Question({**request, "first": BEFORE, "steps": AFTER}, expected)
    imported = {"kind": "train_imported", "checkpoint": midway, "train_op": train_op}
    yield Question({**imported, "steps": BEFORE + AFTER}, at_end)
    yield Question({"kind": "serve", "folder": exported, "feeds": SERVED}, scores)


def restore_here(options: ModelOptions, folder: Path) -> None:
    """A checkpoint of TensorFlow's, restored by graph_opt."""
    _, at_end = stock_values(options, BEFORE, BEFORE + AFTER)
    del at_end["scores"]
    with tf.Graph().as_default():
        model, saver = deferred_model(options), tf.train.Saver()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            train(session, model, BEFORE)
            path = saver.save(session, str(folder / "stock"))
    with tf.Graph().as_default() as graph:
        model, saver = deferred_model(options, first=BEFORE), tf.train.Saver()
        with graph_opt.Session(config=fused_config()) as session:
            saver.restore(session, path)
            train(session, model, AFTER)
            assert_same(all_values(session), at_end)
        assert_deferred(graph)


@pytest.fixture(scope="module")
def cluster() -> Iterator[List[str]]:
    """Targets of two workers in this process and, last, of a parameter server in another."""
    ps, *workers = free_addresses(3)
    addresses = {"ps": [ps], "worker": workers}
    with parameter_servers(addresses, has_ops=[True]):
        spec = tf.train.ClusterSpec(addresses)
        servers = [tf.train.Server(spec, job_name="worker", task_index=task) for task in (0, 1)]
        yield [*(server.target for server in servers), "grpc://" + ps]


def train_in_turns(targets: List[str], options: ModelOptions, opened: Any) -> List[Any]:
    """Two workers, each with its own part of the input; what they and others see."""
    seen: List[Any] = []
    graphs = [tf.Graph(), tf.Graph()]
    models = []
    for place, graph in enumerate(graphs):
        with graph.as_default():
            models.append(deferred_model(options, first=5 * place))
    with opened(targets[0], graphs[0]) as first, opened(targets[1], graphs[1]) as second:
        with graphs[0].as_default():
            first.run(tf.global_variables_initializer())
        for _ in range(3):
            train(first, models[0], 3)
            train(second, models[1], 2)
            with graphs[1].as_default():
                seen.append(all_values(second))
        train(first, models[0], 2)
        second.close()
        train(first, models[0], 3)
    with tf.Graph().as_default():
        deferred_model(options)
        with tf.Session(targets[1]) as session:
            seen.append(all_values(session))
    return seen


def on_servers(targets: List[str], options: ModelOptions) -> Question:
    """One and two workers, their tables read by others once they are done."""
    expected = train_in_turns(targets, options, tf.Session)

    def opened(target: str, graph: Any) -> Any:
        return graph_opt.Session(target, graph, config=fused_config())

    assert_same(train_in_turns(targets, options, opened), expected)
    request = {"kind": "read", "options": dataclasses.asdict(options), "target": targets[-1]}
    return Question(request, expected[-1])


@pytest.mark.slow
def test_other_processes_see_what_they_see_with_tensorflow(
    cluster: List[str], tmp_path: Path
) -> None:
    questions: List[Question] = []
    for use_resource in (False, True):
        options = ModelOptions(use_resource=use_resource, parts=2 if use_resource else 1)
        folder = tmp_path / ("resource" if use_resource else "ref")
        folder.mkdir()
        questions += save_here(options, folder)
        restore_here(options, folder)
    for use_resource in (False, True):
        last = on_servers(cluster, ModelOptions(use_resource=use_resource, device=_ON_SERVER))
    found = answers([*questions, last], tmp_path)
    for question, answer in zip([*questions, last], found):
        assert_same(answer, question.expected, what=question.request["kind"])


def test_a_lost_server_does_not_hold_up_the_end_of_a_session() -> None:
    ps, worker = free_addresses(2)
    addresses = {"ps": [ps], "worker": [worker]}
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(contextlib.ExitStack())
        servers.enter_context(parameter_servers(addresses, has_ops=[True]))
        server = tf.train.Server(tf.train.ClusterSpec(addresses), job_name="worker", task_index=0)
        model = deferred_model(ModelOptions(device=_ON_SERVER))
        session = graph_opt.Session(server.target, config=fused_config())
        session.run(tf.global_variables_initializer())
        train(session, model, 3)
        assert_deferred(session.graph)
        servers.close()
        flush_deferred(session)
        (message,) = [text for text in warnings_about(session.graph) if "caught up" in text]
        assert server.target in message
        # TensorFlow itself does not close a session while one of its servers is down.
        stack.enter_context(parameter_servers(addresses, has_ops=[True]))
        session.close()


def test_a_reset_server_starts_afresh(cluster: List[str]) -> None:
    options = ModelOptions(use_resource=True, device=_ON_SERVER)
    expected = stock_values(options.placed(None), 4)[0]
    del expected["scores"]
    for _ in range(2):
        with tf.Graph().as_default():
            model = deferred_model(options)
            with graph_opt.Session(cluster[0], config=fused_config()) as session:
                session.run(tf.global_variables_initializer())
                train(session, model, 4)
                assert_same(all_values(session), expected)
        tf.Session.reset(cluster[0])
