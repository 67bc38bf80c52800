"""What puts, takes and the ops that control a buffer do in real sessions."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.ops import load_library
from graph_opt.ops.tensor_buffer import METRIC_NAMES, TensorBuffer, decode_metrics
from tests.ops.buffer_ops import BufferOps, drain, result, start


def test_records_come_out_as_they_went_in() -> None:
    record: List[Any] = [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.array([b"", b"text"], dtype=object),
        np.int64(-1),
        np.zeros([0, 4], np.int32),
        np.array(True),
    ]
    tensors = [tf.constant(value) for value in record]
    put = TensorBuffer("b").put(tensors)
    taken = TensorBuffer("b").take(
        [tensor.dtype for tensor in tensors], [tensor.shape for tensor in tensors]
    )
    assert [tensor.shape for tensor in taken] == [tensor.shape for tensor in tensors]
    with tf.Session() as session:
        session.run(put)
        for value, expected in zip(session.run(taken), record):
            np.testing.assert_array_equal(value, expected)


def test_shapes_may_vary_and_be_unknown() -> None:
    value = tf.placeholder(tf.float32)
    put = TensorBuffer("b").put([value])
    (unknown,) = TensorBuffer("b").take([tf.float32])
    (partial,) = TensorBuffer("b").take([tf.float32], [[None, 2]])
    assert unknown.shape.rank is None
    assert partial.shape.as_list() == [None, 2]
    with tf.Session() as session:
        for rows in (1, 5):
            session.run(put, {value: np.ones([rows, 2])})
            assert session.run(partial).shape == (rows, 2)
        session.run(put, {value: 1.0})
        assert session.run(unknown).shape == ()
        session.run(put, {value: np.ones([3])})
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"record\[0\] has shape \[3\]"):
            session.run(partial)


def test_capacity_and_order_of_arrival() -> None:
    buffer = BufferOps(shared_capacity=3)
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        for number in range(3):
            buffer.put_number(session, number)
            assert session.run(buffer.size) == number + 1
        fourth = start(threads, session, buffer.put, {buffer.number: 3})
        buffer.await_metric(session, "pending_puts", 1)
        assert session.run(buffer.size) == 3
        assert [session.run(buffer.taken) for _ in range(4)] == [0, 1, 2, 3]
        result(fourth)


def test_close_drains_and_then_ends() -> None:
    buffer = BufferOps("input", shared_capacity=2)
    with tf.Session() as session:
        buffer.put_number(session, 0)
        buffer.put_number(session, 1)
        session.run(buffer.close)
        with pytest.raises(tf.errors.CancelledError, match="buffer 'input' is closed"):
            buffer.put_number(session, 2)
        assert drain(session, buffer.taken) == [0, 1]
        for _ in range(2):
            with pytest.raises(
                tf.errors.OutOfRangeError, match="buffer 'input' is closed and has no elements left"
            ):
                session.run(buffer.taken)
        assert buffer.metrics(session)["closed"] == 1


def test_close_admits_the_puts_that_wait() -> None:
    buffer = BufferOps()
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        buffer.put_number(session, 0)
        waiting = start(threads, session, buffer.put, {buffer.number: 1})
        buffer.await_metric(session, "pending_puts", 1)
        session.run(buffer.close)
        assert drain(session, buffer.taken) == [0, 1]
        result(waiting)


@pytest.mark.parametrize(
    "code, error",
    [
        (tf.errors.DATA_LOSS, tf.errors.DataLossError),
        (tf.errors.UNKNOWN, tf.errors.UnknownError),
        (tf.errors.OUT_OF_RANGE, tf.errors.OutOfRangeError),
        (tf.errors.ABORTED, tf.errors.AbortedError),
        (tf.errors.UNAUTHENTICATED, tf.errors.UnauthenticatedError),
    ],
)
def test_cancel_tells_its_error_to_waiting_and_later_calls(code: int, error: Any) -> None:
    buffer = BufferOps()
    with tf.Session() as session, ThreadPoolExecutor(2) as threads:
        session.run(buffer.resume)
        calls = [start(threads, session, buffer.taken) for _ in range(2)]
        buffer.await_metric(session, "pending_takes", 2)
        feeds: Dict[Any, Any] = {buffer.code: code, buffer.message: "row 17 is torn: ü"}
        session.run(buffer.cancel_with, feeds)
        session.run(buffer.cancel)  # the first error is the one that is reported
        calls.append(start(threads, session, buffer.taken))
        calls.append(start(threads, session, buffer.put, {buffer.number: 0}))
        for call in calls:
            with pytest.raises(error) as raised:
                result(call)
            assert "row 17 is torn: ü" in raised.value.message.splitlines()
            assert raised.value.error_code == code
        assert buffer.metrics(session)["cancelled"] == 1


def test_cancel_drops_the_records_and_ends_waiting_puts() -> None:
    buffer = BufferOps()
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        buffer.put_number(session, 0)
        waiting = start(threads, session, buffer.put, {buffer.number: 1})
        buffer.await_metric(session, "pending_puts", 1)
        session.run(buffer.cancel)
        with pytest.raises(tf.errors.CancelledError, match="buffer 'batches' was cancelled"):
            result(waiting)
        assert session.run(buffer.size) == 0


def test_resume_reopens_a_buffer() -> None:
    buffer = BufferOps()
    with tf.Session() as session:
        buffer.put_number(session, 0)
        for steer in (buffer.cancel, buffer.close):
            session.run(steer)
            session.run(buffer.resume)
            assert session.run(buffer.size) == 0
            buffer.put_number(session, 1)
            assert session.run(buffer.taken) == 1
        metrics = buffer.metrics(session)
        assert (metrics["closed"], metrics["cancelled"]) == (0, 0)


def test_the_next_graph_on_a_server_may_change_a_buffer() -> None:
    server = tf.train.Server.create_local_server()
    old = BufferOps(shared_capacity=1)
    put = TensorBuffer("batches", 2).put(["text", "more"])
    resume = TensorBuffer("batches", 2).resume()
    size = TensorBuffer("batches", 2).size()
    with tf.Session(server.target) as session:
        old.put_number(session, 1)
        with pytest.raises(tf.errors.InvalidArgumentError, match="shared_capacity is 2"):
            session.run(put)
        session.run(resume)
        for _ in range(2):
            session.run(put)
        assert session.run(size) == 2
        with pytest.raises(tf.errors.InvalidArgumentError, match="shared_capacity is 1"):
            session.run(old.taken)


def test_a_record_of_another_graph_is_refused() -> None:
    buffer = BufferOps()
    put = buffer.buffer.put(["text"])
    with tf.Session() as session:
        buffer.put_number(session, 1)
        assert session.run(buffer.taken) == 1
        session.run(buffer.resume)
        session.run(put)
        with pytest.raises(tf.errors.InvalidArgumentError, match="it has no int64 at 0"):
            session.run(buffer.taken)


def test_metrics_count_records_bytes_and_waits() -> None:
    buffer = BufferOps(shared_capacity=2)
    assert buffer.metrics_op.dtype == tf.int64 and buffer.metrics_op.shape.rank == 1
    with tf.Session() as session, ThreadPoolExecutor(1) as threads:
        session.run(buffer.resume)
        take = start(threads, session, buffer.taken)
        buffer.await_metric(session, "pending_takes", 1)
        for number in range(3):
            buffer.put_number(session, number)
        assert result(take) == 0
        metrics = buffer.metrics(session)
    wait_micros = metrics.pop("take_wait_micros")
    assert wait_micros > 0
    assert metrics == {
        "capacity": 2,
        "size": 2,
        "put_count": 3,
        "take_count": 1,
        "dropped": 0,
        "taken_bytes": 8,
        "put_wait_micros": 0,
        "put_waits": 0,
        "take_waits": 1,
        "pending_takes": 0,
        "pending_puts": 0,
        "closed": 0,
        "cancelled": 0,
        "errors": 0,
        "largest_bytes": 8,
    }


def test_decoding_needs_a_value_for_each_metric() -> None:
    names = METRIC_NAMES
    assert list(decode_metrics(range(len(names)))) == list(names)
    with pytest.raises(ValueError, match="{} metrics, got 3".format(len(names))):
        decode_metrics([1, 2, 3])


def addresses(metadata: Any, node_name: str) -> List[int]:
    """The allocator that held the outputs of a node in a traced step."""
    return [
        output.tensor_description.allocation_description.ptr
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
        if node.node_name == node_name
        for output in node.output
    ]


def test_records_are_passed_on_without_a_copy() -> None:
    put = TensorBuffer("first").put([tf.random.normal([1000, 1000])])
    first = TensorBuffer("first").take([tf.float32], name="first")
    move = TensorBuffer("second").put(first)
    second = TensorBuffer("second").take([tf.float32], name="second")
    trace = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    moved, taken = tf.RunMetadata(), tf.RunMetadata()
    with tf.Session() as session:
        session.run(put)
        session.run(move, options=trace, run_metadata=moved)
        session.run(second[0].op, options=trace, run_metadata=taken)
    address = addresses(moved, "first")[0]
    assert address != 0
    assert addresses(taken, "second")[0] == address


def test_ops_with_one_name_share_a_buffer_and_others_do_not() -> None:
    first, second, other = BufferOps("a"), BufferOps("a"), BufferOps("c")
    with tf.Session() as session:
        first.put_number(session, 5)
        assert session.run([second.size, other.size]) == [1, 0]
        assert session.run(second.taken) == 5


def test_containers_separate_buffers() -> None:
    put = TensorBuffer("b", container="left").put([tf.constant(1)])
    size = TensorBuffer("b", container="right").size()
    with tf.Session() as session:
        session.run(put)
        assert session.run(size) == 0


def test_sessions_have_separate_buffers() -> None:
    buffer = BufferOps()
    with tf.Session() as session, tf.Session() as other:
        buffer.put_number(session, 1)
        assert other.run(buffer.size) == 0


def refused(fetch: Any, *before: Any) -> str:
    """The message of the InvalidArgumentError that running `fetch` gives."""
    with tf.Session() as session:
        for each in before:
            session.run(each)
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(fetch)
    return str(raised.value.message)


def test_capacities_of_one_buffer_must_agree() -> None:
    put = TensorBuffer("b", 2).put([tf.constant(1)])
    size = TensorBuffer("b", 3).size(name="size")
    message = refused(size, put)
    assert "size: shared_capacity is 3, but buffer 'b' exists with shared_capacity 2" in message


def test_types_of_one_buffer_must_agree() -> None:
    put = TensorBuffer("b").put([tf.constant(1)])
    taken = TensorBuffer("b").take([tf.float32, tf.int32], name="take")
    message = refused(taken, put)
    assert "take: dtypes are [float, int32], but buffer 'b' holds records of [int32]" in message


def test_a_buffer_needs_a_name() -> None:
    put = TensorBuffer("").put([tf.constant(1)], name="put")
    assert "put: shared_name is empty" in refused(put)


@pytest.mark.parametrize("code", [0, 17, -1])
def test_cancel_needs_an_error_code(code: int) -> None:
    cancel = TensorBuffer("b").cancel((code, "m"), name="cancel")
    assert "cancel: code is {}".format(code) in refused(cancel)


def test_a_put_has_at_most_one_place() -> None:
    put = load_library().tensor_buffer_put(record=[1], place=[0, 1], shared_name="b", name="put")
    assert "put: num_places is 2" in refused(put)


def test_a_cancel_has_no_place() -> None:
    cancel = load_library().tensor_buffer_cancel(
        code=[], message=[], first_place=[1], shared_name="b", name="cancel"
    )
    assert "cancel: num_places is 1" in refused(cancel)


def test_a_resume_has_no_status() -> None:
    resume = load_library().tensor_buffer_cancel(
        code=[1], message=["m"], first_place=[], is_cancelled=False, shared_name="b", name="resume"
    )
    assert "resume: num_status is 1" in refused(resume)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"timeout_millis": -1}, "timeout_millis"),
        ({"runner_grace_millis": -1}, "runner_grace_millis"),
        ({"shapes": [[], []]}, "shapes has 2 entries, dtypes has 1"),
    ],
)
def test_bad_attributes_are_refused_when_the_graph_is_built(
    arguments: Dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        TensorBuffer("b").take([tf.int32], **arguments)


def test_a_buffer_without_room_is_refused_when_the_graph_is_built() -> None:
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="shared_capacity"):
        TensorBuffer("b", 0).take([tf.int32])


def test_a_place_must_be_a_scalar() -> None:
    places = tf.placeholder(tf.int64, [2])
    with pytest.raises(ValueError, match="rank 0"):
        TensorBuffer("b").put([tf.constant(1)], places)
    for op in (TensorBuffer("b").turn, TensorBuffer("b").turn_end):
        with pytest.raises(ValueError, match="rank 0"):
            op(places)


@pytest.mark.parametrize("code", [17, -1])
def test_a_status_needs_a_code_of_tensorflow(code: int) -> None:
    buffer = BufferOps()
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="code is {}".format(code)):
            buffer.put_error(session, code, "torn")


def test_an_error_in_place_of_a_record_is_reported_once() -> None:
    buffer = BufferOps("input", shared_capacity=3)
    with tf.Session() as session:
        buffer.put_number(session, 0)
        buffer.put_error(session, tf.errors.DATA_LOSS, "row 17 is torn: ü")
        buffer.put_number(session, 2)
        assert session.run(buffer.taken) == 0
        with pytest.raises(tf.errors.DataLossError, match="row 17 is torn: ü"):
            session.run(buffer.taken)
        assert session.run(buffer.taken) == 2
        metrics = buffer.metrics(session)
        assert (metrics["errors"], metrics["put_count"], metrics["take_count"]) == (1, 3, 3)
