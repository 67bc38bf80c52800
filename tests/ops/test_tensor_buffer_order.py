"""Places: batches leave in the order in which several threads drew them, as do errors."""

from __future__ import annotations

import itertools
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from tests.ops.buffer_ops import BufferOps, drain, result, start


class Mover:
    """Threads that move numbers from one buffer to the next in steps that have places.

    How long a number takes varies irregularly, and a number that `fails` fails.
    """

    def __init__(self, source: BufferOps, target: BufferOps, fails: Any = None) -> None:
        self.target = target
        self._places = itertools.count()
        (taken,) = source.buffer.take([tf.int64], [[]])
        taken.op._add_control_input(target.buffer.turn(target.place))
        with tf.control_dependencies([taken]):
            turn_end = target.buffer.turn_end(target.place)
        number = self._work(taken)
        if fails is not None:
            check = tf.debugging.Assert(tf.logical_not(fails(taken)), ["skipped"])
            with tf.control_dependencies([check]):
                number = tf.identity(number)
        with tf.control_dependencies([turn_end]):
            self.move = target.buffer.put([number], target.place)

    @staticmethod
    def _work(number: tf.Tensor) -> tf.Tensor:
        rounds = (number * 7919) % 97 * 3
        done = tf.while_loop(lambda i: i < rounds, lambda i: i + 1, [tf.constant(0, tf.int64)])
        with tf.control_dependencies([done]):
            return tf.identity(number)

    def start(self, session: tf.Session, threads_num: int) -> List[threading.Thread]:
        """Starts threads that move until the end of input; the last one closes the target."""
        left = [threads_num]
        lock = threading.Lock()
        move = session.make_callable(self.move, [self.target.place])

        def work() -> None:
            while self._step(session, move):
                pass
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                session.run(self.target.close)

        threads = [threading.Thread(target=work) for _ in range(threads_num)]
        for thread in threads:
            thread.start()
        return threads

    def _step(self, session: tf.Session, move: Callable[[int], Any]) -> bool:
        place = next(self._places)
        try:
            move(place)
        except tf.errors.OutOfRangeError:
            self.target.put_error(session, 0, "", place)
            return False
        except tf.errors.InvalidArgumentError:
            self.target.put_error(session, tf.errors.DATA_LOSS, "place {}".format(place), place)
        return True


def numbers_through(numbers: int, capacity: int, threads_num: int, fails: Any = None) -> Any:
    """Runs `numbers` through two buffers; returns what arrived, sizes seen, and final metrics."""
    io, main = BufferOps("io", 4), BufferOps("main", capacity)
    mover = Mover(io, main, fails)
    arrived: List[Any] = []
    sizes: List[int] = []

    def feed() -> None:
        for number in range(numbers):
            io.put_number(session, number)
        session.run(io.close)

    with tf.Session() as session:
        session.run([io.resume, main.resume])
        threads = mover.start(session, threads_num)
        threads.append(threading.Thread(target=feed))
        threads[-1].start()
        while True:
            try:
                number, size = session.run([main.taken, main.size])
            except tf.errors.DataLossError as error:
                arrived.extend(re.findall(r"^place \d+$", error.message, re.MULTILINE))
                continue
            except tf.errors.OutOfRangeError:
                break
            arrived.append(int(number))
            sizes.append(int(size))
        for thread in threads:
            thread.join()
        metrics = main.metrics(session)
    return {"arrived": arrived, "most": max(sizes), "metrics": metrics}


@pytest.mark.parametrize("threads_num, capacity", [(1, 1), (4, 1), (4, 2), (8, 3)])
def test_order_and_capacity_hold_with_any_number_of_threads(
    threads_num: int, capacity: int
) -> None:
    out = numbers_through(150, capacity, threads_num)
    assert out["arrived"] == list(range(150))
    assert out["most"] <= capacity
    assert out["metrics"]["put_count"] == out["metrics"]["take_count"] == 150
    assert out["metrics"]["dropped"] == threads_num  # the steps that met the end


@pytest.mark.parametrize("threads_num", [1, 4])
def test_errors_arrive_in_the_places_of_their_batches(threads_num: int) -> None:
    out = numbers_through(100, 2, threads_num, lambda number: tf.equal(number % 10, 3))
    assert out["arrived"] == [
        "place {}".format(number) if number % 10 == 3 else number for number in range(100)
    ]
    assert out["metrics"]["errors"] == 10


def placed(buffer: BufferOps, place: int) -> Dict[Any, Any]:
    """Feeds for the step in this place, which puts the place's number."""
    return {buffer.place: place, buffer.number: place}


def test_a_batch_waits_for_those_ahead_of_it() -> None:
    main = BufferOps("main", 2)
    put = main.buffer.put([main.number], main.place)
    with tf.Session() as session, ThreadPoolExecutor(3) as threads:
        session.run(put, placed(main, 1))  # admitted, since a slot is left for the first
        take = start(threads, session, main.taken)
        main.await_metric(session, "pending_takes", 1)
        third = start(threads, session, put, placed(main, 2))
        main.await_metric(session, "pending_puts", 1)
        assert session.run(main.size) == 1
        session.run(put, placed(main, 0))
        result(third)
        assert [result(take), session.run(main.taken), session.run(main.taken)] == [0, 1, 2]


def test_a_skipped_place_is_no_longer_waited_for() -> None:
    main = BufferOps("main", 2)
    put = main.buffer.put([main.number], main.place)
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        session.run(put, placed(main, 1))
        take = start(threads, session, main.taken)
        main.await_metric(session, "pending_takes", 1)
        main.put_error(session, 0, "", 0)
        assert result(take) == 1
        assert main.metrics(session)["dropped"] == 1


def test_places_from_before_a_resume_are_refused() -> None:
    main = BufferOps("main", 2)
    put = main.buffer.put([main.number], main.place)
    turn = main.buffer.turn(main.place)
    with tf.Session() as session:
        session.run(main.resume, {main.place: 100})
        session.run(turn, placed(main, 100))
        session.run(put, placed(main, 100))
        session.run(main.resume, {main.place: 200})
        for stale in (put, turn):
            with pytest.raises(tf.errors.CancelledError, match="resumed"):
                session.run(stale, placed(main, 101))
        session.run(put, placed(main, 200))
        assert session.run(main.taken) == 200


def test_without_a_place_nothing_waits() -> None:
    main = BufferOps("main", 2)
    put = main.buffer.put([main.number], main.place)
    turn = main.buffer.turn(main.place)
    turn_end = main.buffer.turn_end(main.place)
    with tf.Session() as session:
        for number in (7, 3):
            session.run([turn, turn_end])
            session.run(put, {main.number: number})
        session.run(main.close)
        assert drain(session, main.taken) == [7, 3]


def test_turns_are_taken_in_order_and_end_with_the_buffer() -> None:
    main = BufferOps("main")
    turn = main.buffer.turn(main.place)
    turn_end = main.buffer.turn_end(main.place)
    feeds: Dict[Any, Any] = {main.code: tf.errors.DATA_LOSS, main.message: "torn"}
    with tf.Session() as session, ThreadPoolExecutor(2) as threads:
        second = start(threads, session, turn, placed(main, 1))
        third = start(threads, session, turn, placed(main, 2))
        session.run(turn, placed(main, 0))
        assert not second.done()
        session.run(turn_end, placed(main, 0))
        result(second)
        assert not third.done()
        session.run(main.cancel_with, feeds)
        with pytest.raises(tf.errors.DataLossError, match="torn"):
            result(third)


@pytest.mark.slow
def test_three_stages_under_stress() -> None:
    io, middle, main = BufferOps("io", 3), BufferOps("middle", 2), BufferOps("main", 2)
    first, second = Mover(io, middle), Mover(middle, main)
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        session.run([io.resume, middle.resume, main.resume])
        movers = first.start(session, 4) + second.start(session, 3)

        def feed() -> None:
            for number in range(2000):
                io.put_number(session, number)
            session.run(io.close)

        feeder = threads.submit(feed)
        np.testing.assert_array_equal(drain(session, main.taken), np.arange(2000))
        result(feeder)
        for mover in movers:
            mover.join()
