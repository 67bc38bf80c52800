"""The hook under MonitoredTrainingSession and Estimator: start, early stop, recovery, errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from graph_opt.session.prefetch_hook import make_prefetch_hook
from tests.quick_cases import slow_but
from tests.release_features import needs_estimators
from tests.runtime.sources import STOP_SECONDS, failing_at, numbers, prefetch_threads, runner_of


def train_op_of(batch: Any) -> Any:
    """Adds 1 to the global step for each batch; fetches the batch too."""
    step = tf.train.get_or_create_global_step()
    with tf.control_dependencies([tf.assign_add(step, 1)]):
        return tf.identity(batch)


class RaiseOnce(tf.train.SessionRunHook):
    """Raises an error after a given number of steps, once."""

    def __init__(self, error: BaseException, after_steps: int) -> None:
        self._error = error
        self._after_steps = after_steps
        self.sessions = 0

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Counts the sessions."""
        del session, coord
        self.sessions += 1

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises once the steps are done."""
        del run_context, run_values
        self._after_steps -= 1
        if self._after_steps == 0:
            raise self._error


def test_every_batch_is_trained_once() -> None:
    train = train_op_of(staged(staged(numbers(25)), num_threads=2))
    values = []
    with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
        while not session.should_stop():
            values.append(session.run(train))
    assert values == list(range(25))
    assert prefetch_threads() == []


def test_an_early_stop_returns_within_a_second() -> None:
    train = train_op_of(staged(staged(numbers(), capacity=3), capacity=3))
    hooks = [make_prefetch_hook(), tf.train.StopAtStepHook(last_step=5)]
    with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
        while not session.should_stop():
            session.run(train)
        start = time.monotonic()
    assert time.monotonic() - start < STOP_SECONDS
    assert prefetch_threads() == []


def test_an_exception_in_the_users_loop_passes_and_ends_the_threads() -> None:
    train = train_op_of(staged(staged(numbers())))
    with pytest.raises(ZeroDivisionError):
        with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
            session.run(train)
            start = time.monotonic()
            raise ZeroDivisionError("the user's own")
    assert time.monotonic() - start < STOP_SECONDS
    assert prefetch_threads() == []


def test_a_parse_error_mid_epoch_ends_the_training_with_its_message() -> None:
    train = train_op_of(staged(staged(failing_at(50, 20)), num_threads=3))
    values = []
    with pytest.raises(tf.errors.InvalidArgumentError, match="row is torn"):
        with tf.train.MonitoredTrainingSession(hooks=[make_prefetch_hook()]) as session:
            while not session.should_stop():
                values.append(session.run(train))
    assert values == list(range(len(values)))
    assert prefetch_threads() == []


@pytest.mark.parametrize(
    "error",
    slow_but([tf.errors.AbortedError, tf.errors.UnavailableError], tf.errors.UnavailableError),
)
def test_a_preempted_main_recovers_and_continues(error: Any, tmp_path: Path) -> None:
    train = train_op_of(staged(staged(numbers(), capacity=2), num_threads=2))
    breaking = RaiseOnce(error(None, None, "worker lost"), 5)
    hooks = [breaking, make_prefetch_hook(), tf.train.StopAtStepHook(num_steps=12)]
    start = time.monotonic()
    with tf.train.MonitoredTrainingSession(
        hooks=hooks, checkpoint_dir=str(tmp_path), save_checkpoint_steps=1
    ) as session:
        while not session.should_stop():
            session.run(train)
    assert breaking.sessions == 2
    assert time.monotonic() - start < 60
    assert prefetch_threads() == []


@pytest.mark.parametrize("error", [tf.errors.AbortedError, tf.errors.UnavailableError])
def test_a_preempted_prefetch_thread_makes_main_recover(error: Any) -> None:
    fed = tf.placeholder(tf.int64, [])
    calls: List[int] = []

    def lose_the_worker_once() -> int:
        calls.append(len(calls))
        if len(calls) == 5:
            raise error(None, None, "the parameter server was restarted")
        return len(calls)

    train = train_op_of(staged(staged(fed, {fed: lose_the_worker_once}), num_threads=2))
    counting = RaiseOnce(AssertionError("not meant to happen"), 10**6)
    values = []
    with tf.train.MonitoredTrainingSession(hooks=[counting, make_prefetch_hook()]) as session:
        for _ in range(12):
            values.append(session.run(train))
    assert counting.sessions == 2
    # No value twice, none out of order; those in flight are lost with the session.
    assert values == sorted(set(values)) and len(values) == 12
    assert prefetch_threads() == []


def test_a_plain_session_with_a_coordinator() -> None:
    taken = staged(numbers())
    hook = make_prefetch_hook()
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        hook.after_create_session(session, coordinator)
        assert [session.run(taken) for _ in range(3)] == [0, 1, 2]
        coordinator.request_stop()
        coordinator.join()
        assert prefetch_threads() == []


def test_the_runners_metrics_stay_after_the_end() -> None:
    train = train_op_of(staged(numbers(4), name="input"))
    hook = make_prefetch_hook()
    with tf.train.MonitoredTrainingSession(hooks=[hook]) as session:
        while not session.should_stop():
            session.run(train)
    assert runner_of(hook).counters()["input"]["steps"] == 4


def linear_model(staging: Callable[[Any], Any]) -> Any:
    """A model function whose features pass through `staging`."""

    def model_fn(features: Dict[str, Any], labels: Any, mode: str) -> Any:
        if mode == tf.estimator.ModeKeys.TRAIN:
            features, labels = staging((features, labels))
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(weight * features["x"] - labels))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    return model_fn


def input_fn() -> Any:
    """40 batches of 8 rows of y = 3 x; Estimator initialises the iterator in a hook."""
    x = np.random.RandomState(0).uniform(-1, 1, 320).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({"x": x}, 3 * x)).batch(8)


@needs_estimators
def test_estimator_trains_evaluates_and_stops_early(tmp_path: Path) -> None:
    estimator = tf.estimator.Estimator(linear_model(staged), model_dir=str(tmp_path))
    estimator.train(input_fn, hooks=[make_prefetch_hook()])
    assert estimator.get_variable_value("global_step") == 40
    start = time.monotonic()
    estimator.train(input_fn, hooks=[make_prefetch_hook()], max_steps=45)
    assert time.monotonic() - start < 60
    assert estimator.get_variable_value("global_step") == 45
    assert estimator.evaluate(input_fn, steps=5)["loss"] < 0.5
    assert prefetch_threads() == []
