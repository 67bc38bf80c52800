"""Stages in a gRPC session: order, errors, stopping and recovery as in a direct session."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from graph_opt.compat import tf
from graph_opt.compat.callables import is_direct_session
from graph_opt.runtime.staged import staged
from graph_opt.session.prefetch_hook import make_prefetch_hook
from tests.runtime.sources import (
    STOP_SECONDS,
    drain,
    failing_at,
    numbers,
    prefetch_threads,
    prefetching,
    runner_of,
)
from tests.session.parameter_servers import free_addresses, parameter_servers


def test_kinds_of_sessions_are_distinguished(server: Any) -> None:
    with tf.Session() as direct, tf.Session(server.target) as remote:
        assert is_direct_session(direct) and not is_direct_session(remote)


def test_order_and_end_of_input(server: Any) -> None:
    taken = staged(staged(numbers(40), name="d/order/io"), num_threads=3, name="d/order/lookup")
    with tf.Session(server.target) as session, prefetching(session) as hook:
        assert drain(session, taken) == list(range(40))
        assert runner_of(hook).metrics()["d/order/lookup"]["take_count"] == 40


def test_a_second_session_on_the_same_server_starts_fresh(server: Any) -> None:
    taken = staged(numbers(), capacity=4, name="d/anew")
    for _ in range(2):
        with tf.Session(server.target) as session, prefetching(session):
            first = session.run(taken)
            # The one-shot iterator lives on in the server; the buffer does not.
            assert session.run(taken) == first + 1


def test_an_error_surfaces_with_type_and_message(server: Any) -> None:
    first = staged(failing_at(20, 6), name="d/error/io")
    taken = staged(first, num_threads=2, name="d/error/lookup")
    with tf.Session(server.target) as session, prefetching(session):
        with pytest.raises(tf.errors.InvalidArgumentError, match="row is torn"):
            for _ in range(20):
                session.run(taken)


def test_the_coordinator_stops_the_threads_within_a_second(server: Any) -> None:
    taken = staged(staged(numbers(), name="d/stop/io"), name="d/stop/lookup")
    coordinator = tf.train.Coordinator()
    with tf.Session(server.target) as session, prefetching(session, coordinator):
        session.run(taken)
        start = time.monotonic()
        coordinator.request_stop()
        coordinator.join()
        assert time.monotonic() - start < STOP_SECONDS
        assert prefetch_threads() == []


@pytest.mark.slow
def test_a_forgotten_hook_is_an_error_within_seconds(server: Any) -> None:
    taken = staged(numbers(), name="d/forgotten")
    with tf.Session(server.target) as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="make_prefetch_hook"):
            session.run(taken)


@pytest.mark.slow
def test_training_continues_after_the_parameter_server_was_lost(
    tmp_path: Any,
) -> None:
    ps, own = free_addresses(2)
    addresses = {"ps": [ps], "worker": [own]}
    cluster = tf.train.ClusterSpec(addresses)
    worker = tf.train.Server(cluster, "worker", 0)
    with tf.device("/job:worker/task:0"):
        # Main uses only the worker: it can learn of the loss only from the prefetch threads.
        step = tf.train.get_or_create_global_step()
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        table = tf.get_variable("table", [10, 2], initializer=tf.ones_initializer())
        batch = staged(numbers(), name="io")
        rows = staged(tf.gather(table, [batch % 10]), num_threads=2, name="lookup")
    with tf.device("/job:worker/task:0"), tf.control_dependencies([rows]):
        train = tf.assign_add(step, 1)
    hooks = [make_prefetch_hook(), tf.train.StopAtStepHook(last_step=30)]
    trained = 0
    with contextlib.ExitStack() as servers:
        servers.enter_context(parameter_servers(addresses, has_ops=[False]))
        with tf.train.MonitoredTrainingSession(
            worker.target, hooks=hooks, checkpoint_dir=str(tmp_path), save_checkpoint_steps=10**6
        ) as session:
            while not session.should_stop():
                session.run(train)
                trained += 1
                if trained == 10:
                    servers.close()
                    servers.enter_context(parameter_servers(addresses, has_ops=[False]))
    # The recovered session went back to the checkpoint of the first step.
    assert trained > 30
    assert prefetch_threads() == []
