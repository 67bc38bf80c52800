"""Ranks that are threads: messages arrive, gradients travel back, and no rank waits forever."""

from __future__ import annotations

import threading
from typing import Any, List

import numpy as np
import pytest
from tensorflow.python.eager import context

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessGroup, InProcessTransport, run_ranks


def send(
    transport: InProcessTransport, name: str = "m", rows: int = 1, dtype: Any = tf.float32
) -> Any:
    """Sends `rows` rows to each rank."""
    values = tf.fill([transport.size * rows, 2], tf.cast(transport.rank, dtype))
    splits = tf.constant([rows] * transport.size, tf.int32)
    return transport.all_to_all(values, splits, name)


def run(transport: InProcessTransport, *arguments: Any) -> Any:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(send(transport, *arguments))


def test_each_rank_gets_its_part_of_all_messages() -> None:
    def work(transport: InProcessTransport) -> Any:
        splits = [(transport.rank + to) % 3 for to in range(4)]
        values = np.repeat(10 * transport.rank + np.arange(4), splits)
        with tf.Graph().as_default(), tf.Session() as session:
            tensor = tf.placeholder(tf.int64, [None])
            sent = transport.all_to_all(tensor, tf.constant(splits, tf.int32), "m")
            return [session.run(sent, {tensor: values + step}) for step in range(2)]

    for rank, steps in enumerate(run_ranks(4, work, 60)):
        counts = [(from_rank + rank) % 3 for from_rank in range(4)]
        for step, (values, splits) in enumerate(steps):
            assert list(splits) == counts
            assert list(values - step) == list(np.repeat(10 * np.arange(4) + rank, counts))


@pytest.mark.parametrize("eager", [False, True])
def test_gradients_travel_back(eager: bool) -> None:
    def loss_of(transport: InProcessTransport, tensor: tf.Tensor) -> tf.Tensor:
        splits = tf.constant([1, 2], tf.int32)
        received, _ = transport.all_to_all(tensor, splits, "m")
        return tf.reduce_sum(received) * (transport.rank + 1.0)

    def work(transport: InProcessTransport) -> Any:
        if eager:
            with context.eager_mode(), tf.GradientTape() as tape:
                tensor = tf.zeros([3])
                tape.watch(tensor)
                loss = loss_of(transport, tensor)
            with context.eager_mode():
                return tape.gradient(loss, tensor).numpy()
        with tf.Graph().as_default(), tf.Session() as session:
            tensor = tf.zeros([3])
            return session.run(tf.gradients(loss_of(transport, tensor), tensor)[0])

    for gradient in run_ranks(2, work, 60):
        assert list(gradient) == [1.0, 2.0, 2.0]


def test_an_error_of_one_rank_is_raised_and_the_others_are_told() -> None:
    told: List[str] = []

    def work(transport: InProcessTransport) -> None:
        run(transport, "first")
        if transport.rank == 1:
            raise KeyError("no such feature")
        try:
            run(transport, "second")
        except tf.errors.UnknownError as error:
            told.append(error.message)
            raise

    with pytest.raises(KeyError, match="no such feature"):
        run_ranks(3, work, 60)
    assert len(told) == 2
    assert all("rank 1 failed: KeyError: 'no such feature'" in message for message in told)


def test_a_monitored_session_does_not_try_again() -> None:
    def work(transport: InProcessTransport) -> None:
        with tf.Graph().as_default():
            tf.train.get_or_create_global_step()
            sent = send(transport)
            with tf.train.MonitoredTrainingSession() as session:
                session.run(sent)
                if transport.rank == 0:
                    raise OSError("disk full")
                session.run(sent)

    with pytest.raises(OSError, match="disk full"):
        run_ranks(2, work, 60)


def test_a_rank_that_sends_more_than_another_is_told() -> None:
    with pytest.raises(tf.errors.UnknownError, match="rank 0 has ended"):
        run_ranks(2, lambda transport: run(transport) if transport.rank else None, 60)


def test_a_wait_has_an_end() -> None:
    transport = InProcessGroup(3, timeout_seconds=0.05).transport(1)
    message = "message 'm' has waited 50 ms for ranks 0, 2 of 3"
    for _ in range(2):  # the group has failed
        with pytest.raises(tf.errors.DeadlineExceededError, match=message):
            run(transport)


def test_a_cancelled_step_ends_the_steps_of_the_others() -> None:
    group = InProcessGroup(2)
    ended: List[str] = []

    def wait() -> None:
        with pytest.raises(tf.errors.UnknownError) as error:
            run(group.transport(0), "m")
        ended.append(str(error.value))

    other = threading.Thread(target=wait)
    with tf.Graph().as_default(), tf.Session() as session:
        sent = send(group.transport(1), "n")
        options = tf.RunOptions(timeout_in_ms=50)
        other.start()
        with pytest.raises(tf.errors.OpError):
            session.run(sent, options=options)
    other.join()
    assert "rank 1 was cancelled while message 'n' waited for other ranks" in ended[0]


def test_ranks_that_send_different_things_are_told() -> None:
    def work(transport: InProcessTransport) -> Any:
        return run(transport, "m", 1, tf.float32 if transport.rank else tf.int64)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rank 0 sends .*int64.* and rank 1"):
        run_ranks(2, work, 60)


def test_two_messages_of_one_name_are_an_error() -> None:
    transport = InProcessGroup(2, timeout_seconds=60).transport(0)
    with tf.Graph().as_default(), tf.Session() as session:
        both = [send(transport, "m"), send(transport, "m")]
        message = "rank 0 sends message 'm' while an earlier one of that name"
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(both)


def test_a_bad_size_or_rank_is_an_error() -> None:
    with pytest.raises(ValueError, match="a group of 0 ranks"):
        InProcessGroup(0)
    with pytest.raises(ValueError, match="rank 2 of a group of 2"):
        InProcessGroup(2).transport(2)


def test_ranks_leave_no_line_in_the_log_of_optimized_sessions(
    capfd: pytest.CaptureFixture[str],
) -> None:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.do_group_embedding = True
    graph_opt.install(config)
    try:
        assert run_ranks(2, lambda transport: transport.rank) == [0, 1]
        assert "graph_opt: " not in capfd.readouterr().err
    finally:
        graph_opt.uninstall()
