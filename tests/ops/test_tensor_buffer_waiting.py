"""Calls that wait hold no thread and end on deadlines, cancellation or a forgotten hook."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from graph_opt.compat import tf
from graph_opt.ops.tensor_buffer import TensorBuffer
from tests.ops.buffer_ops import BufferOps, result, start
from tests.session.parameter_servers import free_addresses


def test_a_take_that_waits_too_long_fails() -> None:
    buffer = BufferOps("input", timeout_millis=50)
    with tf.Session() as session:
        session.run(buffer.resume)
        with pytest.raises(
            tf.errors.DeadlineExceededError,
            match="waited timeout_millis = 50 ms for buffer 'input', which holds 0 of 1",
        ):
            session.run(buffer.taken)
        buffer.put_number(session, 1)
        with pytest.raises(tf.errors.DeadlineExceededError, match="holds 1 of 1"):
            buffer.put_number(session, 2)
        assert session.run(buffer.taken) == 1
        assert buffer.metrics(session)["take_wait_micros"] >= 50000


def test_a_take_without_a_runner_fails_and_names_the_hook() -> None:
    taken = TensorBuffer("input").take([tf.int32], runner_grace_millis=50, name="take")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError) as raised:
            session.run(taken)
    message = raised.value.message
    assert "take: waited 50 ms for buffer 'input'" in message
    assert "add graph_opt.make_prefetch_hook() to the session's hooks" in message
    assert "graph_opt.Session" in message


def test_a_take_before_the_runner_gets_the_first_record() -> None:
    buffer = BufferOps()
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        take = start(threads, session, buffer.taken)
        buffer.await_metric(session, "pending_takes", 1)
        session.run(buffer.resume)
        buffer.put_number(session, 7)
        assert result(take) == 7


def test_the_timeout_of_a_step_ends_its_wait() -> None:
    buffer = BufferOps()
    with tf.Session() as session:
        session.run(buffer.resume)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(buffer.taken, options=tf.RunOptions(timeout_in_ms=50))
        buffer.await_metric(session, "pending_takes", 0)
        buffer.put_number(session, 1)
        assert session.run(buffer.size) == 1  # the cancelled take did not get it
        assert session.run(buffer.taken) == 1


def test_an_error_in_the_step_ends_its_waits() -> None:
    buffer = BufferOps()
    broken = tf.placeholder(tf.int32, [])
    with tf.control_dependencies([tf.debugging.assert_positive(broken, message="broken step")]):
        failing = tf.identity(broken)
    with tf.Session() as session:
        session.run(buffer.resume)
        for _ in range(20):
            with pytest.raises(tf.errors.InvalidArgumentError, match="broken step"):
                session.run([buffer.taken, failing], {broken: -1})
        assert buffer.metrics(session)["pending_takes"] == 0


def test_closing_the_session_ends_waits() -> None:
    buffer = BufferOps()
    with ThreadPoolExecutor(8) as threads:
        session = tf.Session()
        buffer.put_number(session, 0)
        puts = [start(threads, session, buffer.put, {buffer.number: 1}) for _ in range(8)]
        buffer.await_metric(session, "pending_puts", 8)
        begun = time.monotonic()
        session.close()
        for put in puts:
            with pytest.raises(tf.errors.CancelledError):
                result(put)
        assert time.monotonic() - begun < 60


def test_waiting_holds_no_thread() -> None:
    waiting = 64
    buffer = BufferOps()
    takes = [buffer.buffer.take([tf.int64], [[]])[0] for _ in range(waiting)]
    product = tf.reduce_sum(tf.matmul(tf.ones([20, 20]), tf.ones([20, 20])))
    config = tf.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=2)
    with tf.Session(config=config) as session, ThreadPoolExecutor(1) as threads:
        session.run(buffer.resume)
        step = start(threads, session, takes)
        buffer.await_metric(session, "pending_takes", waiting)
        assert session.run(product) == 8000
        for number in range(waiting):
            buffer.put_number(session, number)
        assert sorted(result(step)) == list(range(waiting))


def test_takes_of_many_steps_wait_while_the_graph_works() -> None:
    waiting = 64
    buffer = BufferOps()
    config = tf.ConfigProto(inter_op_parallelism_threads=2, intra_op_parallelism_threads=2)
    with tf.Session(config=config) as session, ThreadPoolExecutor(waiting) as threads:
        session.run(buffer.resume)
        steps = [start(threads, session, buffer.taken) for _ in range(waiting)]
        buffer.await_metric(session, "pending_takes", waiting)
        for number in range(waiting):
            buffer.put_number(session, number)
        assert sorted(result(step) for step in steps) == list(range(waiting))
        assert buffer.metrics(session)["take_waits"] == waiting


def test_puts_that_wait_hold_no_thread() -> None:
    buffer = BufferOps()
    puts = [buffer.buffer.put([tf.constant(number, tf.int64)]) for number in range(64)]
    config = tf.ConfigProto(inter_op_parallelism_threads=2)
    with tf.Session(config=config) as session, ThreadPoolExecutor(1) as threads:
        step = start(threads, session, puts)
        buffer.await_metric(session, "pending_puts", 63)
        assert sorted(session.run(buffer.taken) for _ in puts) == list(range(64))
        result(step)


def test_waits_on_a_server() -> None:
    buffer = BufferOps()
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session, ThreadPoolExecutor(1) as threads:
        session.run(buffer.resume)
        take = start(threads, session, buffer.taken)
        buffer.await_metric(session, "pending_takes", 1)
        buffer.put_number(session, 3)
        assert result(take) == 3
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(buffer.taken, options=tf.RunOptions(timeout_in_ms=50))
        buffer.await_metric(session, "pending_takes", 0)


@pytest.mark.slow
def test_cancellations_race_with_records() -> None:
    # In a direct session, since a server of TensorFlow loses some timeouts that expire as the step
    # begins (a FIFOQueue then hangs, too).
    buffer = BufferOps(shared_capacity=2)

    def run_steps(session: tf.Session, fetch: object, seed: int) -> None:
        choice = random.Random(seed)
        for number in range(400):
            options = tf.RunOptions(timeout_in_ms=choice.randint(1, 4))
            try:
                session.run(fetch, {buffer.number: number}, options=options)
            except (tf.errors.DeadlineExceededError, tf.errors.CancelledError):
                pass

    with tf.Session() as session, ThreadPoolExecutor(6) as threads:
        session.run(buffer.resume)
        fetches = [buffer.put, buffer.taken, [buffer.put, buffer.taken]]
        runs = [
            threads.submit(run_steps, session, fetch, seed)
            for seed, fetch in enumerate(fetches + fetches)
        ]
        for run in runs:
            result(run)
        buffer.await_metric(session, "pending_takes", 0)
        buffer.await_metric(session, "pending_puts", 0)
        metrics = buffer.metrics(session)
        assert metrics["put_count"] == metrics["take_count"] + metrics["size"]
        session.run(buffer.resume)
        buffer.put_number(session, 7)
        assert session.run(buffer.taken) == 7


@pytest.mark.slow
def test_sessions_close_while_calls_wait() -> None:
    buffer = BufferOps(shared_capacity=2)
    for seed in range(50):
        session = tf.Session()
        session.run(buffer.resume)
        with ThreadPoolExecutor(6) as threads:
            steps = [start(threads, session, buffer.taken) for _ in range(6)]
            for number in range(seed % 3):
                buffer.put_number(session, number)
            session.close()
            errors = [step.exception(60) for step in steps]
        assert sum(error is None for error in errors) <= seed % 3


def test_a_step_fails_with_its_cause_on_whichever_task_that_is() -> None:
    """What waits is cancelled then, which is no cause."""
    server = tf.train.Server(
        tf.train.ClusterSpec({"worker": free_addresses(2)}), "worker", 0, start=True
    )
    cluster = server.server_def.cluster
    other = tf.train.Server(cluster, "worker", 1)
    with tf.device("/job:worker/task:0"):
        buffer = BufferOps()
    with tf.device("/job:worker/task:1"):
        broken = tf.placeholder(tf.int32, [])
        with tf.control_dependencies([tf.debugging.assert_positive(broken, message="broken")]):
            failing = tf.identity(broken)
    with tf.Session(server.target) as session:
        session.run(buffer.resume)
        for _ in range(20):
            with pytest.raises(tf.errors.InvalidArgumentError, match="broken"):
                session.run([buffer.taken, failing], {broken: -1})
    del other
