"""Tickets: what comes out of a buffer is in the order in which the one before handed it out."""

from __future__ import annotations

import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops import tensor_buffer
from tests.ops.buffer_ops import BufferOps, drain, result, start


class TwoStages:
    """`io` holds numbers; `lookup`, run by several threads, moves them to `main`.

    A number takes a while that depends on it in no order, and one that `fails` fails.
    """

    def __init__(self, capacity: int, unordered: bool = False, fails: Any = None) -> None:
        self.io = BufferOps("io", 4)
        number = self._work(self.io.taken)
        if fails is not None:
            check = tf.debugging.Assert(tf.logical_not(fails(self.io.taken)), ["skipped"])
            with tf.control_dependencies([check]):
                number = tf.identity(number)
        self.main = BufferOps("main", capacity)
        self.lookup = tensor_buffer.tensor_buffer_put(
            [number], self.io.ticket, unordered=unordered, **self.main.names
        )

    @staticmethod
    def _work(number: tf.Tensor) -> tf.Tensor:
        rounds = (number * 7919) % 97 * 3
        done = tf.while_loop(lambda i: i < rounds, lambda i: i + 1, [tf.constant(0, tf.int64)])
        with tf.control_dependencies([done]):
            return tf.identity(number)

    def feed(self, session: tf.Session, numbers: int) -> None:
        """Puts all numbers into `io` and closes it."""
        for number in range(numbers):
            self.io.put_number(session, number)
        session.run(self.io.close)

    def run_threads(self, session: tf.Session, threads_num: int) -> List[threading.Thread]:
        """Threads that run `lookup` until the end of input; the last one closes `main`."""
        left = [threads_num]
        lock = threading.Lock()
        lookup: Callable[[], Any] = session.make_callable(self.lookup)

        def work() -> None:
            while step_succeeds(lookup):
                pass
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                session.run(self.main.close)

        threads = [threading.Thread(target=work) for _ in range(threads_num)]
        for thread in threads:
            thread.start()
        return threads


def step_succeeds(step: Callable[[], Any]) -> bool:
    """Runs one step; False at the end of input, True also when the batch was skipped."""
    try:
        step()
    except tf.errors.OutOfRangeError:
        return False
    except tf.errors.InvalidArgumentError:
        pass
    return True


def numbers_through(stages: TwoStages, numbers: int, threads_num: int) -> Dict[str, Any]:
    """Runs `numbers` through both stages: what arrived, the sizes seen, and `main`'s metrics."""
    with tf.Session() as session:
        session.run([stages.io.resume, stages.main.resume])
        threads = stages.run_threads(session, threads_num)
        feeder = threading.Thread(target=stages.feed, args=(session, numbers))
        feeder.start()
        seen = drain(session, [stages.main.taken, stages.main.size])
        for thread in threads + [feeder]:
            thread.join()
        return {
            "numbers": [int(number) for number, _ in seen],
            "most": max((int(size) for _, size in seen), default=0),
            "metrics": stages.main.metrics(session),
        }


@pytest.mark.parametrize("threads_num, capacity", [(1, 1), (4, 1), (4, 2), (8, 3)])
def test_order_and_capacity_hold_with_any_number_of_threads(
    threads_num: int, capacity: int
) -> None:
    out = numbers_through(TwoStages(capacity), 150, threads_num)
    assert out["numbers"] == list(range(150))
    assert out["most"] <= capacity
    assert out["metrics"]["put_count"] == out["metrics"]["take_count"] == 150
    assert out["metrics"]["dropped"] <= threads_num  # the takes that met the end issued none


def test_unordered_loses_nothing() -> None:
    out = numbers_through(TwoStages(2, unordered=True), 150, 4)
    assert sorted(out["numbers"]) == list(range(150))


@pytest.mark.parametrize("threads_num", [1, 4])
def test_a_failed_batch_is_skipped_and_the_order_holds(threads_num: int) -> None:
    stages = TwoStages(2, fails=lambda number: tf.equal(number % 10, 3))
    out = numbers_through(stages, 100, threads_num)
    assert out["numbers"] == [number for number in range(100) if number % 10 != 3]
    assert out["metrics"]["dropped"] == 10


def test_a_batch_waits_for_those_ahead_of_it() -> None:
    io, main = BufferOps("io", 2), BufferOps("main", 2)
    hold = BufferOps("hold", 2)
    with tf.control_dependencies([hold.taken]):
        slow = tensor_buffer.tensor_buffer_put([tf.identity(io.taken)], io.ticket, **main.names)
    quick = tensor_buffer.tensor_buffer_take([tf.int64], [[]], **io.names)
    put_quick = tensor_buffer.tensor_buffer_put(quick.record, quick.ticket, **main.names)
    with tf.Session() as session, ThreadPoolExecutor(3) as threads:
        session.run([io.resume, main.resume, hold.resume])
        io.put_number(session, 1)
        first = start(threads, session, slow)
        io.await_metric(session, "take_count", 1)
        io.put_number(session, 2)
        session.run(put_quick)  # let in, since a slot is left for the first
        take = start(threads, session, main.taken)
        main.await_metric(session, "pending_takes", 1)
        assert session.run(main.size) == 1
        hold.put_number(session, 0)
        assert result(take) == 1
        result(first)
        assert session.run(main.taken) == 2


def test_tickets_of_before_a_resume_block_nobody() -> None:
    io, main, hold = BufferOps("io", 2), BufferOps("main", 2), BufferOps("hold")
    with tf.control_dependencies([hold.taken]):
        stuck = tensor_buffer.tensor_buffer_put([tf.identity(io.taken)], io.ticket, **main.names)
    again = tensor_buffer.tensor_buffer_take([tf.int64], [[]], **io.names)
    put_again = tensor_buffer.tensor_buffer_put(again.record, again.ticket, **main.names)
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        session.run([io.resume, main.resume, hold.resume])
        io.put_number(session, 1)
        old = start(threads, session, stuck)
        io.await_metric(session, "take_count", 1)
        session.run([io.resume, main.resume])
        for number in (2, 3):
            io.put_number(session, number)
            session.run(put_again)
        assert [session.run(main.taken) for _ in range(2)] == [2, 3]
        hold.put_number(session, 0)
        result(old)
        assert session.run(main.taken) == 1


def test_unordered_takes_issue_empty_tickets() -> None:
    io, main = BufferOps("io", 2, unordered=True), BufferOps("main")
    move = tensor_buffer.tensor_buffer_put([io.taken], io.ticket, **main.names)
    with tf.Session() as session:
        for number in range(3):
            io.put_number(session, number)
            session.run(move)
            assert session.run(main.taken) == number
        assert main.metrics(session)["dropped"] == 0


def free_address() -> str:
    """An address of this machine that the system says is free."""
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return "localhost:{}".format(probe.getsockname()[1])


def test_a_ticket_sent_to_another_server_arrives_empty_and_blocks_nobody() -> None:
    cluster = tf.train.ClusterSpec({"near": [free_address()], "far": [free_address()]})
    servers = [tf.train.Server(cluster, job_name=job, task_index=0) for job in ("near", "far")]
    with tf.device("/job:near/cpu:0"):
        io, hold = BufferOps("io", 2), BufferOps("hold")
        with tf.control_dependencies([hold.taken]):
            number, ticket = tf.identity(io.taken), tf.identity(io.ticket)
        again = tensor_buffer.tensor_buffer_take([tf.int64], [[]], **io.names)
    with tf.device("/job:far/cpu:0"):
        main = BufferOps("main", 2)
        slow = tensor_buffer.tensor_buffer_put([number], ticket, **main.names)
        quick = tensor_buffer.tensor_buffer_put(again.record, again.ticket, **main.names)
    with tf.Session(servers[0].target) as session, ThreadPoolExecutor(1) as threads:
        session.run([io.resume, main.resume, hold.resume])
        io.put_number(session, 1)
        first = start(threads, session, slow)
        io.await_metric(session, "take_count", 1)
        io.put_number(session, 2)
        session.run(quick)
        assert session.run(main.taken) == 2
        hold.put_number(session, 0)
        result(first)
        assert session.run(main.taken) == 1


@pytest.mark.slow
def test_three_stages_under_stress() -> None:
    io, middle, main = BufferOps("io", 3), BufferOps("middle", 2), BufferOps("main", 2)
    first = tensor_buffer.tensor_buffer_put([TwoStages._work(io.taken)], io.ticket, **middle.names)
    second = tensor_buffer.tensor_buffer_put(
        [TwoStages._work(middle.taken)], middle.ticket, **main.names
    )
    with tf.Session() as session, ThreadPoolExecutor(8) as threads:
        session.run([io.resume, middle.resume, main.resume])

        def work(step: Callable[[], Any]) -> None:
            while step_succeeds(step):
                pass

        movers = [threads.submit(work, session.make_callable(first)) for _ in range(4)]
        lookups = [threads.submit(work, session.make_callable(second)) for _ in range(3)]

        def feed() -> None:
            for number in range(2000):
                io.put_number(session, number)
            session.run(io.close)
            for mover in movers:
                result(mover)
            session.run(middle.close)

        feeder = threads.submit(feed)
        taken = [int(session.run(main.taken)) for _ in range(2000)]
        result(feeder)
        for lookup in lookups:
            result(lookup)
        np.testing.assert_array_equal(taken, np.arange(2000))
