from __future__ import annotations

import ctypes
import os
import threading
from concurrent import futures
from typing import List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.ops.library import LIBRARY_PATH, register_ops
from graph_opt.ops.request_numbers import number_requests
from tests.session.parameter_servers import free_addresses, parameter_servers

NUMBERS, THREADS = 20000, 4
# With TensorFlow's own numbers, five of these steps fail; all succeed in one run of 100.
STEPS = 200000


def numbers(count: int) -> List[int]:
    """What the masters of this process number their next requests by."""
    register_ops()
    draw = ctypes.CDLL(LIBRARY_PATH).graph_opt_request_number
    draw.restype = ctypes.c_int64
    return [draw() for _ in range(count)]


def test_no_number_is_repeated_or_zero() -> None:
    drawn: List[int] = []
    threads = [
        threading.Thread(target=lambda: drawn.extend(numbers(NUMBERS))) for _ in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == THREADS * NUMBERS
    assert 0 not in drawn
    # They say nothing about each other: another process may have drawn a neighbour.
    assert max(drawn) > 2**62 and min(drawn) < -(2**62)


def test_a_forked_process_begins_elsewhere() -> None:
    numbers(1)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, " ".join(map(str, numbers(100))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        theirs = {int(each) for each in answer.read().split()}
    os.waitpid(child, 0)
    assert len(theirs) == 100
    assert theirs.isdisjoint(numbers(1000))


def unshifted(value: int, bits: int) -> int:
    """What `value ^ (value >> bits)` was made of."""
    found = value
    for _ in range(64 // bits):
        found = value ^ (found >> bits)
    return found


def inverse(factor: int) -> int:
    """What undoes a multiplication modulo 2**64, by Euler's theorem."""
    return pow(factor, 2**62 - 1, 2**64)


def place_of(number: int) -> int:
    """How many numbers were drawn before this one, from an unknown start."""
    value = unshifted(number % 2**64, 31)
    value = unshifted(value * inverse(0x94D049BB133111EB) % 2**64, 27)
    value = unshifted(value * inverse(0xBF58476D1CE4E5B9) % 2**64, 30)
    return (value - 0x9E3779B97F4A7C15) % 2**64


@pytest.mark.skipif(
    tf.version.VERSION.startswith("1."), reason="TensorFlow 1 draws its numbers from one generator"
)
def test_the_masters_of_this_process_use_them() -> None:
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default():
        one = tf.ones([])
        with graph_opt.Session(server.target) as session:
            session.run(one)
            before = place_of(numbers(1)[0])
            for _ in range(10):
                session.run(one)
            drawn = place_of(numbers(1)[0]) - before
    assert number_requests()
    assert drawn == 11


@pytest.mark.slow
def test_no_step_is_refused() -> None:
    ps, worker = free_addresses(2)
    addresses = {"ps": [ps], "worker": [worker]}
    with parameter_servers(addresses, has_ops=[False]), tf.Graph().as_default():
        target = tf.train.Server(tf.train.ClusterSpec(addresses), "worker", 0).target
        with tf.device("/job:ps/task:0"):
            table = tf.get_variable("table", [], initializer=tf.ones_initializer())
        with tf.device("/job:worker/task:0"):
            read = table + 1.0
        with graph_opt.Session(target) as session:
            session.run(table.initializer)
            step = session.make_callable(read)
            with futures.ThreadPoolExecutor(THREADS) as pool:
                values = pool.map(lambda _: step(), range(STEPS))
                assert set(values) == {2.0}
