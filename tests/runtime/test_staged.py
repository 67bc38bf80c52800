"""`staged` and `prefetch_join` keep structure and values; every parameter works as documented."""

from __future__ import annotations

from collections import namedtuple
from typing import Any, Dict, List

import numpy as np
import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import prefetch_join, staged
from graph_opt.runtime.stages import stages_of
from tests.runtime.sources import drain, numbers, prefetching, runner_of, wait_until

Pair = namedtuple("Pair", ["left", "right"])


def test_a_nest_keeps_structure_dtypes_and_static_shapes() -> None:
    features = {
        "b": Pair(tf.zeros([4, 3]), [tf.ones([2], tf.int64), None]),
        "a": tf.placeholder_with_default(["x", "y"], [None]),
        "none": None,
        "empty": (),
    }
    result = staged(features)
    assert list(result) == ["b", "a", "none", "empty"]
    assert isinstance(result["b"], Pair)
    assert result["b"].left.shape.as_list() == [4, 3]
    assert result["b"].right[0].shape.as_list() == [2]
    assert result["b"].right[0].dtype == tf.int64
    assert result["b"].right[1] is None and result["none"] is None and result["empty"] == ()
    assert result["a"].shape.as_list() == [None]
    with tf.Session() as session, prefetching(session):
        left, text = session.run([result["b"].left, result["a"]])
    np.testing.assert_array_equal(left, np.zeros([4, 3]))
    assert list(text) == [b"x", b"y"]


def test_sparse_and_ragged_tensors_come_back_as_such() -> None:
    sparse = tf.SparseTensor(
        tf.constant([[0, 1], [2, 0]], tf.int64), tf.constant([1.0, 2.0]), [3, 2]
    )
    ragged = tf.RaggedTensor.from_row_splits(tf.constant([1, 2, 3]), tf.constant([0, 2, 2, 3]))
    taken_sparse, taken_ragged = staged((sparse, ragged))
    assert taken_sparse.shape.as_list() == [3, 2]
    assert taken_ragged.shape.as_list() == [3, None]
    with tf.Session() as session, prefetching(session):
        sparse_value, ragged_value = session.run([taken_sparse, taken_ragged])
    np.testing.assert_array_equal(sparse_value.indices, [[0, 1], [2, 0]])
    np.testing.assert_array_equal(sparse_value.dense_shape, [3, 2])
    assert ragged_value.to_list() == [[1, 2], [], [3]]


def test_a_single_tensor_comes_back_unwrapped_and_constants_become_tensors() -> None:
    assert isinstance(staged(tf.constant(1)), tf.Tensor)
    with tf.Session() as session:
        taken = staged([np.arange(3), 2.5])
        with prefetching(session):
            values = session.run(taken)
    np.testing.assert_array_equal(values[0], [0, 1, 2])
    assert values[1] == 2.5


@pytest.mark.parametrize("features", [None, {}, [None, ()]])
def test_features_without_a_tensor_are_refused(features: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="at least one"):
        staged(features)


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_are_refused(use_resource: bool) -> None:
    variable = tf.get_variable("table", [3], use_resource=use_resource)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'table:0' is state"):
        staged([tf.constant(1), variable])


def test_resources_and_other_objects_are_refused() -> None:
    handle = tf.get_variable("table", [3], use_resource=True).handle
    with pytest.raises(tf.errors.InvalidArgumentError, match="is state"):
        staged(handle)
    with pytest.raises(tf.errors.InvalidArgumentError, match="object"):
        staged([object()])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"capacity": 0}, "capacity=0"),
        ({"capacity": 1.5}, "capacity=1.5"),
        ({"num_threads": 0}, "num_threads=0"),
        ({"num_clients": -1}, "num_clients=-1"),
        ({"num_threads": -2}, "num_threads=-2: need an integer >= 1 or -1, to have it tuned"),
        ({"capacity": -1, "autotune_memory_mb": 0}, "autotune_memory_mb=0"),
        ({"timeout_millis": -1}, "timeout_millis=-1"),
        ({"stage_subgraph_thread_pool_id": -1}, "stage_subgraph_thread_pool_id=-1"),
        ({"stage_subgraph_stream_id": True}, "stage_subgraph_stream_id=True"),
        ({"closed_exception_types": ["late"]}, "closed_exception_types"),
        ({"ignored_exception_types": int}, "ignored_exception_types"),
    ],
)
def test_options_out_of_range_are_refused(options: Dict[str, Any], message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        staged(tf.constant(1), **options)


def test_the_buffer_holds_capacity_elements_for_each_client() -> None:
    taken = staged(numbers(), capacity=2, num_clients=3, name="input")
    with tf.Session() as session, prefetching(session) as hook:
        wait_until(lambda: runner_of(hook).metrics()["input"]["pending_puts"] == 1, "full buffer")
        metrics = runner_of(hook).metrics()["input"]
        assert (metrics["capacity"], metrics["size"]) == (6, 6)
        assert session.run(taken) == 0


def test_a_put_that_waits_too_long_is_an_error() -> None:
    taken = staged(numbers(), timeout_millis=50, name="input")
    with tf.Session() as session, prefetching(session) as hook:
        put = lambda: runner_of(hook).metrics()["input"]["put_waits"]  # noqa: E731
        wait_until(lambda: put() == 2, "a put that timed out, and its error that waits for room")
        assert session.run(taken) == 0
        with pytest.raises(tf.errors.DeadlineExceededError, match="input"):
            session.run(taken)
        assert session.run(taken) >= 2


def test_a_stream_id_is_accepted_and_warned_about_once(warnings_logged: List[str]) -> None:
    for _ in range(2):
        staged(tf.constant(1), stage_subgraph_stream_id=1)
    staged(tf.constant(1))
    assert len(warnings_logged) == 1 and "stage_subgraph_stream_id" in warnings_logged[0]


def test_a_limit_of_what_is_not_tuned_is_warned_about(warnings_logged: List[str]) -> None:
    staged(tf.constant(1), capacity=-1, autotune_memory_mb=64)
    assert not warnings_logged
    staged(tf.constant(1), autotune_memory_mb=64)
    assert len(warnings_logged) == 1 and "autotune_memory_mb=64" in warnings_logged[0]


@pytest.mark.parametrize("num_threads", [1, 4])
def test_each_batch_leaves_exactly_once(num_threads: int) -> None:
    taken = staged(numbers(200), capacity=3, num_threads=num_threads)
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == list(range(200))


def test_a_second_stage_keeps_the_order_of_the_first_with_four_threads() -> None:
    first = staged(numbers(300), capacity=2)
    second = staged([first, first * 10], capacity=3, num_threads=4)
    with tf.Session() as session, prefetching(session):
        values = drain(session, second)
    assert values == [[n, n * 10] for n in range(300)]


def test_stages_know_their_upstream() -> None:
    first, other = staged(numbers(), name="a"), staged(numbers(), name="b")
    staged(first + 1, name="c")
    staged([first, other], name="d")
    upstream = {stage.name: stage.spec.upstream for stage in stages_of(tf.get_default_graph())}
    assert upstream == {"a": (), "b": (), "c": ("a",), "d": ("a", "b")}


def test_batches_of_zero_rows_pass() -> None:
    rows = tf.reshape(tf.cast(tf.range(numbers(3)), tf.float32), [-1, 1])
    taken = staged(rows, capacity=2)
    with tf.Session() as session, prefetching(session):
        shapes = [value.shape for value in drain(session, taken)]
    assert shapes == [(0, 1), (1, 1), (2, 1)]


def test_an_empty_input_ends_at_once() -> None:
    taken = staged(staged(numbers(0)), num_threads=3)
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == []


def test_what_the_caller_depends_on_does_not_run_with_main() -> None:
    with tf.control_dependencies([tf.Assert(False, ["main must not run this"])]):
        taken = staged(numbers(), ignored_exception_types=tf.errors.InvalidArgumentError)
    assert taken.op.control_inputs == []


def test_prefetch_join_takes_from_every_thread_until_the_last_ends() -> None:
    features = [{"n": numbers(5)}, {"n": numbers(30) + 100}, {"n": numbers(0)}]
    taken = prefetch_join(features, capacity=2, name="joined")
    (stage,) = stages_of(tf.get_default_graph())
    assert [put.threads_num for put in stage.puts] == [1, 1, 1]
    with tf.Session() as session, prefetching(session):
        values = [value["n"] for value in drain(session, taken)]
    assert sorted(values) == list(range(5)) + list(range(100, 130))


def test_prefetch_join_keeps_the_shape_that_all_threads_share() -> None:
    taken = prefetch_join([tf.zeros([4, 2]), tf.ones([5, 2])])
    assert taken.shape.as_list() == [None, 2]


@pytest.mark.parametrize(
    "features, message",
    [
        ([], "thread_to_features"),
        (3, "thread_to_features"),
        ([[1], [1, 2]], "features of thread 1 differ"),
        ([[1], [1.5]], r"thread 1 have dtypes \[float32\], those of thread 0 \[int32\]"),
    ],
)
def test_prefetch_join_refuses_features_that_differ(features: Any, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        prefetch_join(features)


@pytest.mark.slow
def test_a_forgotten_hook_is_an_error_within_seconds() -> None:
    taken = staged(numbers(), name="input")
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="make_prefetch_hook"):
            session.run(taken)


def test_the_device_of_the_worker_is_kept() -> None:
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:3")):
        taken = staged(tf.constant(1))
    graph = tf.get_default_graph()
    buffers = [op for op in graph.get_operations() if op.type.startswith("TensorBuffer")]
    devices = {tf.DeviceSpec.from_string(op.device).to_string() for op in buffers}
    assert devices == {"/job:worker/task:3/device:CPU:0"}
    assert taken.device == "/job:worker/task:3/device:CPU:0"
