"""Sessions lose no update of a pipelined step, whatever comes between two steps."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Dict, Iterator, NamedTuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.session import Session
from tests.passes.pipeline.delayed_training import pipelining
from tests.passes.transfers import dense_models
from tests.session.parameter_servers import (
    free_addresses,
    parameter_servers,
    stock_servers,
)

STEPS = 6
RATE = 0.1


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """A worker with a parameter server in a process of its own, which is stock TensorFlow."""
    with stock_servers(1) as target:
        yield target


class Regression(NamedTuple):
    """`weight * x` is to be `y`, in batches of one; the gradient is `2 x (weight x - y)`."""

    x: Any
    y: Any
    weight: Any
    bias: Any
    loss: Any
    step: Any
    train: Any
    saver: Any

    def feed(self, number: int) -> Dict[Any, Any]:
        """The batch of a step."""
        return {self.x: X[number], self.y: Y[number]}


X = np.random.RandomState(0).rand(4 * STEPS).astype(np.float32)
Y = np.random.RandomState(1).rand(4 * STEPS).astype(np.float32)


@pytest.fixture()
def model(target: str) -> Iterator[Regression]:
    with tf.device(dense_models.on_servers(1)):
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        yield regression(x, y)
    tf.Session.reset(target)


def regression(x: Any, y: Any) -> Regression:
    weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
    bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
    loss = tf.square(weight * x + bias - y)
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(RATE).minimize(loss, step)
    return Regression(x, y, weight, bias, loss, step, train, tf.train.Saver())


def expected(steps: int, start: int = 0, weights: Any = None) -> np.ndarray:
    """Weight and bias after steps whose gradients are those of weights that miss one update."""
    now = np.array([1, 0], np.float32) if weights is None else weights
    old = now
    for number in range(start, start + steps):
        x, y = X[number], Y[number]
        error = 2 * (old[0] * x + old[1] - y)
        old, now = now, now - np.float32(RATE) * np.array([error * x, error], np.float32)
    return now


def assert_trained(values: Any, steps: int, **options: Any) -> None:
    np.testing.assert_allclose(values, expected(steps, **options), rtol=1e-6)


def train(session: Any, model: Regression, steps: int = STEPS, start: int = 0) -> None:
    for number in range(start, start + steps):
        session.run(model.train, model.feed(number))


@pytest.fixture()
def session(target: str, model: Regression) -> Iterator[Any]:
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as opened:
        opened.run(initialize)
        yield opened


def test_a_fetch_sees_all_updates(session: Any, model: Regression) -> None:
    train(session, model)
    assert_trained(session.run([model.weight, model.bias]), STEPS)
    assert session.run(model.step) == STEPS
    assert "weights miss 1 update" in str(graph_opt.report())
    threads = session.stage_threads
    assert threads.started == {"pipeline_dense"}


def test_a_checkpoint_has_all_updates_and_changes_nothing(
    session: Any, model: Regression, tmp_path: Path
) -> None:
    train(session, model, 3)
    prefix = model.saver.save(session, str(tmp_path / "model"))
    reader = tf.train.load_checkpoint(prefix)
    assert_trained([reader.get_tensor("weight"), reader.get_tensor("bias")], 3)
    train(session, model, STEPS - 3, start=3)
    assert_trained(session.run([model.weight, model.bias]), STEPS)


def test_an_evaluation_sees_all_updates_and_takes_no_weights(
    session: Any, model: Regression
) -> None:
    for number in range(STEPS):
        session.run(model.train, model.feed(number))
        weight, bias = expected(number + 1)
        for _ in range(3):
            found = session.run(model.loss, model.feed(0))
            np.testing.assert_allclose(found, (weight * X[0] + bias - Y[0]) ** 2, rtol=1e-5)
    assert_trained(session.run([model.weight, model.bias]), STEPS)


def test_steps_after_an_assignment_use_what_was_assigned(session: Any, model: Regression) -> None:
    train(session, model)
    model.weight.load(5.0, session)
    model.bias.load(0.0, session)
    train(session, model)
    after = np.array([5, 0], np.float32)
    assert_trained(session.run([model.weight, model.bias]), STEPS, weights=after)


@pytest.mark.slow
def test_compiled_steps_do_the_same(session: Any, model: Regression) -> None:
    step = session.make_callable(model.train, [model.x, model.y])
    evaluate = session.make_callable(model.loss, [model.x, model.y])
    for number in range(STEPS):
        step(X[number], Y[number])
    weight, bias = expected(STEPS)
    np.testing.assert_allclose(evaluate(X[0], Y[0]), (weight * X[0] + bias - Y[0]) ** 2, rtol=1e-5)
    assert_trained(session.run([model.weight, model.bias]), STEPS)


def test_a_step_that_fails_is_followed_by_others(session: Any, model: Regression) -> None:
    train(session, model, 3)
    before = session.run([model.weight, model.bias])
    for _ in range(4):
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(model.train, {model.x: 1.0})  # y is not fed.
    assert session.run([model.weight, model.bias]) == before
    train(session, model, 3, start=3)
    assert_trained(session.run([model.weight, model.bias]), 3, start=3, weights=np.array(before))


@pytest.mark.slow
def test_closing_the_session_applies_what_is_left(target: str, model: Regression) -> None:
    initialize = tf.global_variables_initializer()
    with Session(target, config=pipelining()) as first:
        first.run(initialize)
        train(first, model)
    with tf.Session(target) as second:
        assert_trained(second.run([model.weight, model.bias]), STEPS)


def test_the_end_of_input_loses_nothing(target: str) -> None:
    tf.Session.reset(target)
    with tf.Graph().as_default(), tf.device(dense_models.on_servers(1)):
        data = tf.data.Dataset.from_tensor_slices((X[:STEPS], Y[:STEPS]))
        made = regression(*tf.data.make_one_shot_iterator(data).get_next())
        steps = 0
        with graph_opt.train.MonitoredTrainingSession(target, config=pipelining()) as session:
            while not session.should_stop():
                session.run(made.train)
                steps += 1
        assert steps == STEPS
        with tf.Session(target) as second:
            assert_trained(second.run([made.weight, made.bias]), STEPS)
            assert second.run(made.step) == STEPS


@pytest.mark.slow
def test_monitored_sessions_save_all_updates(target: str, tmp_path: Path) -> None:
    tf.Session.reset(target)
    with tf.Graph().as_default(), tf.device(dense_models.on_servers(1)):
        data = tf.data.Dataset.from_tensor_slices((X, Y))
        made = regression(*tf.data.make_one_shot_iterator(data).get_next())
        with graph_opt.train.MonitoredTrainingSession(
            target,
            config=pipelining(),
            checkpoint_dir=str(tmp_path),
            save_checkpoint_steps=2,
            hooks=[tf.train.StopAtStepHook(last_step=STEPS)],
        ) as session:
            while not session.should_stop():
                session.run(made.train)
    for prefix in tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths:
        reader = tf.train.load_checkpoint(prefix)
        steps = int(reader.get_tensor("global_step"))
        assert_trained([reader.get_tensor("weight"), reader.get_tensor("bias")], steps)
    assert steps == STEPS


@pytest.mark.slow
def test_updates_of_tables_whose_lookups_run_ahead_move_along() -> None:
    server, worker = free_addresses(2)
    cluster = {"ps": [server], "worker": [worker]}
    ids = np.random.RandomState(2).randint(0, 5, [3 * STEPS]).astype(np.int64)
    with parameter_servers(cluster, has_ops=[True]):
        target = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target
        with tf.Graph().as_default(), tf.device(dense_models.on_servers(1)):
            data = tf.data.Dataset.from_tensor_slices(ids).batch(3)
            batch = graph_opt.staged(tf.data.make_one_shot_iterator(data).get_next())
            table = tf.get_variable("table", [5, 1], initializer=tf.zeros_initializer())
            weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
            rows = tf.nn.embedding_lookup(table, batch)
            # Gradients are 1 and -1, however old rows and weights are.
            loss = tf.reduce_sum(rows) + tf.abs(weight - 100.0)
            train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
            config = pipelining()
            optimizer = config.graph_options.optimizer_options
            optimizer.group_embedding_options.ClearField("lookups")
            optimizer.do_async_embedding = True
            asynchronous = optimizer.async_embedding_options
            asynchronous.threads_num, asynchronous.capacity = 1, 2
            with graph_opt.train.MonitoredTrainingSession(target, config=config) as session:
                while not session.should_stop():
                    session.run(train_op)
            assert "pipeline_dense: 2 updates" in str(graph_opt.report(train_op.graph))
            with tf.Session(target) as second:
                found = second.run([table, weight])
    np.testing.assert_array_equal(found[0][:, 0], -np.bincount(ids, minlength=5))
    assert found[1] == STEPS


@pytest.mark.slow
def test_a_server_that_is_lost_costs_no_update_of_the_checkpoint(tmp_path: Path) -> None:
    server, worker = free_addresses(2)
    cluster = {"ps": [server], "worker": [worker]}
    with contextlib.ExitStack() as stack:
        (lost,) = stack.enter_context(parameter_servers(cluster, has_ops=[False]))
        target = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target
        with tf.Graph().as_default(), tf.device(dense_models.on_servers(1)):
            data = tf.data.Dataset.range(1000 * STEPS)
            batch = tf.cast(tf.data.make_one_shot_iterator(data).get_next(), tf.float32)
            weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
            loss = tf.abs(weight - 1e6 - 0 * batch)  # Each step adds 1.
            step = tf.train.get_or_create_global_step()
            train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss, step)
            with graph_opt.train.MonitoredTrainingSession(
                target,
                config=pipelining(),
                checkpoint_dir=str(tmp_path),
                save_checkpoint_steps=3,
                hooks=[tf.train.StopAtStepHook(last_step=4 * STEPS)],
            ) as session:
                for _ in range(2 * STEPS):
                    session.run(train_op)
                lost.kill()
                stack.enter_context(parameter_servers(cluster, has_ops=[False]))
                while not session.should_stop():
                    session.run(train_op)
        reader = tf.train.load_checkpoint(str(tmp_path))
        assert reader.get_tensor("global_step") == reader.get_tensor("weight") == 4 * STEPS


def _run_after_late_errors(session: Any, target: Any) -> None:
    """Runs it once no more gradients of steps before come too late: of two at most."""
    for _ in range(2):
        try:
            return session.run(target)
        except tf.errors.InvalidArgumentError as error:
            assert "earlier step" in error.message
    session.run(target)


def test_an_error_of_an_update_reaches_a_step(target: str) -> None:
    tf.Session.reset(target)
    with tf.Graph().as_default(), tf.device(dense_models.on_servers(1)):
        x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        made = regression(x, y)
        checked = tf.get_variable("checked", [], trainable=False, use_resource=True)
        with tf.control_dependencies([made.train]), tf.device("/job:ps/task:0"):
            value = tf.debugging.check_numerics(made.weight.read_value(), "weight is bad")
            train_op = tf.assign(checked, value).op
            end = tf.group(train_op)
        initialize = tf.global_variables_initializer()
        with Session(target, config=pipelining()) as session:
            session.run(initialize)
            session.run(end, made.feed(0))
            session.run(end, {x: np.nan, y: 0.0})
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)earlier step.*is bad"):
                for number in range(3):
                    session.run(end, made.feed(number))
            with pytest.raises(tf.errors.InvalidArgumentError, match="earlier step"):
                session.run(made.weight)  # The gradients of the next step came too late, too.
            _run_after_late_errors(session, initialize)
            session.run(end, made.feed(0))
            session.run(end, {x: np.nan, y: 0.0})
            with pytest.raises(tf.errors.InvalidArgumentError, match="earlier step"):
                session.close()
