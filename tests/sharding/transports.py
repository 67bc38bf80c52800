"""What every transport must do; a program for each of two ranks, threads or processes."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
from tensorflow.python.eager import context

from graph_opt.compat import tf
from graph_opt.ops.sent_messages import times_sent
from graph_opt.sharding.transport import OPERATIONS, Transport
from tests.plain_sessions import plain_session

DTYPES = (tf.float32, tf.float16, tf.bfloat16, tf.float64, tf.int32, tf.int64)
EVERY_DTYPE = (
    *DTYPES,
    *(tf.int8, tf.int16, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    *(tf.bool, tf.complex64, tf.complex128),
)


def check_messages(transport: Transport) -> None:
    """All dtypes travel, equal messages are sent, and so are those that nothing reads."""
    with tf.Graph().as_default(), plain_session() as session:
        sent = [_sent(transport, dtype) for dtype in EVERY_DTYPE]
        for dtype, (rows, splits) in zip(EVERY_DTYPE, session.run(sent)):
            assert rows.dtype == dtype.as_numpy_dtype
            expected = [[0, 1], [1, 1]] * (1 + transport.rank)
            assert sorted(np.abs(rows).astype(np.int64).tolist()) == sorted(expected)
            assert splits.tolist() == [1 + transport.rank] * 2
    with tf.Graph().as_default(), plain_session() as session:
        names = ["test_read", "test_equal", "test_unread"]
        read, equal, unread = (_sent(transport, tf.int64, name)[0] for name in names)
        with tf.control_dependencies([unread]):
            both = read + equal
        before = [_times_sent(transport, name) for name in names]
        session.run(both)
        assert [_times_sent(transport, name) for name in names] == [one + 1 for one in before]


def _sent(transport: Transport, dtype: Any, name: str = "") -> Tuple[tf.Tensor, tf.Tensor]:
    """One row to the first rank, and two to the second."""
    rows = tf.constant(np.array([[transport.rank, 1]] * 3, dtype.as_numpy_dtype))
    splits = tf.constant([1, 2], tf.int32)
    return transport.all_to_all(rows, splits, name or transport.message_name("test_dtype"))


def _times_sent(transport: Transport, name: str) -> int:
    return times_sent("{}/{}/{}".format(transport.group_name, transport.rank, name))


def check_reductions(transport: Transport) -> None:
    """Every function but `all_to_all`, on two ranks, in a session and eagerly."""
    with tf.Graph().as_default(), plain_session() as session:
        for results in session.run([_reduced(transport, dtype) for dtype in DTYPES]):
            _check_reduced(results)
    with context.eager_mode():
        _check_reduced([one.numpy() for one in _reduced(transport, tf.float32)])


def _reduced(transport: Transport, dtype: Any) -> List[tf.Tensor]:
    mine = tf.constant([3 - 2 * transport.rank, 5], dtype)
    name = transport.message_name
    return [
        *(transport.all_reduce(mine, one, name("test_" + one)) for one in OPERATIONS),
        transport.all_gather(mine[transport.rank :], name("test_gather")),
        transport.broadcast(mine[0], 1, name("test_broadcast")),
    ]


def _check_reduced(results: List[np.ndarray]) -> None:
    expected = [[4, 10], [2, 5], [3, 5], [1, 5], [3, 5, 5], 1]
    assert [np.asarray(one, np.float64).tolist() for one in results] == expected


def check_gradients(transport: Transport) -> None:
    """Gradients of a message, of graphs and of tapes; several are on their way in one step."""
    for dtype in (tf.float32, tf.bfloat16):
        expected = [[3.0, 6.0, 6.0], [6.0, 12.0, 12.0], [9.0, 18.0, 18.0]]
        assert _in_session(transport, dtype) == expected
        with context.eager_mode():
            assert _of_tape(transport, dtype).numpy().tolist() == expected[0]
            traced = tf.function(_of_tape)
            assert traced(transport, dtype).numpy().tolist() == expected[0]
            assert _of_function(transport, dtype).numpy().tolist() == expected[0]


def _loss(transport: Transport, tensor: tf.Tensor) -> tf.Tensor:
    name = transport.message_name("test_message")
    received, _ = transport.all_to_all(tensor, tf.constant([1, 2], tf.int32), name)
    return tf.reduce_sum(tf.cast(received, tf.float32) * (transport.rank + 1.0))


def _in_session(transport: Transport, dtype: Any) -> List[List[float]]:
    with tf.Graph().as_default() as graph, plain_session() as session:
        tensor = tf.zeros([3], dtype)
        loss = 3.0 * _loss(transport, tensor)
        fetches = [tf.gradients(one, tensor)[0] for one in (loss, 2.0 * loss)]
        with tf.GradientTape() as tape:
            tape.watch(tensor)
            loss = 9.0 * _loss(transport, tensor)
        fetches.append(tape.gradient(loss, tensor))
        assert all(node.type != "IdentityN" for node in graph.get_operations())
        return [gradient.tolist() for gradient in session.run(fetches)]


def _of_tape(transport: Transport, dtype: Any) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tensor = tf.zeros([3], dtype)
        tape.watch(tensor)
        loss = 3.0 * _loss(transport, tensor)
    return tape.gradient(loss, tensor)


def _of_function(transport: Transport, dtype: Any) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tensor = tf.zeros([3], dtype)
        tape.watch(tensor)
        loss = 3.0 * tf.function(lambda given: _loss(transport, given))(tensor)
    return tape.gradient(loss, tensor)
