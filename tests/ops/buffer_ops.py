"""All ops of one buffer in the default graph, and ways to run them from several threads."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, Dict, List

from graph_opt.compat import tf
from graph_opt.ops.tensor_buffer import TensorBuffer, decode_metrics

MOST_SECONDS = 300.0


class BufferOps:
    """A buffer of int64 scalars; `put` puts the value that is fed to `number`."""

    def __init__(self, shared_name: str = "batches", shared_capacity: int = 1, **waiting: Any):
        self.buffer = TensorBuffer(shared_name, shared_capacity)
        self.number = tf.placeholder(tf.int64, [])
        self.put = self.buffer.put([self.number], **waiting)
        taken = self.buffer.take([tf.int64], [[]], **waiting)
        self.taken = taken[0]
        self.code = tf.placeholder(tf.int32, [])
        self.message = tf.placeholder(tf.string, [])
        self.place = tf.placeholder_with_default(tf.constant(-1, tf.int64), [])
        self.put_status = self.buffer.put_status(self.place, self.code, self.message)
        self.cancel_with = self.buffer.cancel((self.code, self.message))
        self.cancel = self.buffer.cancel()
        self.resume = self.buffer.resume(self.place)
        self.close = self.buffer.close()
        self.size = self.buffer.size()
        self.metrics_op = self.buffer.metrics()

    def put_number(self, session: tf.Session, number: int) -> None:
        """Puts one number; waits while the buffer is full."""
        session.run(self.put, {self.number: number})

    def put_error(self, session: tf.Session, code: int, message: str, place: int = -1) -> None:
        """Puts an error (or nothing, for code 0) in a place; waits while the buffer is full."""
        feeds: Dict[Any, Any] = {self.place: place, self.code: code, self.message: message}
        session.run(self.put_status, feeds)

    def metrics(self, session: tf.Session) -> Dict[str, int]:
        """The buffer's metrics by name."""
        return decode_metrics(session.run(self.metrics_op))

    def await_metric(self, session: tf.Session, name: str, value: int) -> None:
        """Waits up to a minute for the metric to have this value."""
        wait_until(lambda: self.metrics(session)[name] == value, "{} = {}".format(name, value))


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Waits up to a minute for the condition to hold."""
    deadline = time.monotonic() + MOST_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited too long for " + what


def start(
    threads: ThreadPoolExecutor, session: tf.Session, fetch: Any, feeds: Any = None
) -> Future:
    """Runs a step in another thread."""
    return threads.submit(session.run, fetch, feeds)


def result(future: Future) -> Any:
    """Waits up to a minute for the outcome of a step in another thread."""
    return future.result(MOST_SECONDS)


def drain(session: tf.Session, fetch: Any) -> List[Any]:
    """What the fetch yields until the end of input."""
    values = []
    while True:
        try:
            values.append(session.run(fetch))
        except tf.errors.OutOfRangeError:
            return values
