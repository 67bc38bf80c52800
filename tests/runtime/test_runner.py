"""The runner: end of input, errors, stopping, and that nothing is left behind."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Any, List

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.runtime import worker_pool
from graph_opt.runtime.runner import StageRunner
from graph_opt.runtime.staged import staged
from graph_opt.runtime.stages import stages_of
from graph_opt.session.prefetch_hook import make_prefetch_hook
from tests.runtime.sources import (
    STOP_SECONDS,
    WAIT_SECONDS,
    drain,
    failing_at,
    numbers,
    prefetch_threads,
    prefetching,
    runner_of,
    stage_threads,
    wait_until,
)


def two_stages(source: Any, num_threads: int = 2, **options: Any) -> Any:
    """`source` through a stage "io" followed by a stage "lookup"."""
    first = staged(source, capacity=2, name="io", **options)
    return staged(first + 0, capacity=2, num_threads=num_threads, name="lookup")


def test_the_threads_end_with_the_input() -> None:
    taken = two_stages(numbers(7))
    with tf.Session() as session, prefetching(session) as hook:
        assert drain(session, taken) == list(range(7))
        wait_until(lambda: not runner_of(hook).running, "end of threads")
        metrics = runner_of(hook).metrics()
        assert [metrics[name]["steps"] for name in ("io", "lookup")] == [7, 7]
        assert metrics["lookup"]["closed"] == 1
        with pytest.raises(tf.errors.OutOfRangeError, match="lookup"):
            session.run(taken)


@pytest.mark.parametrize("num_threads", [1, 4])
def test_an_error_mid_epoch_surfaces_once_with_type_message_and_node(num_threads: int) -> None:
    taken = two_stages(failing_at(100, 20), num_threads)
    with tf.Session() as session, prefetching(session) as hook:
        assert [session.run(taken) for _ in range(20)] == list(range(20))
        with pytest.raises(tf.errors.InvalidArgumentError) as raised:
            session.run(taken)
        assert "row is torn" in str(raised.value)
        assert "node parse" in raised.value.message and raised.value.op.name == "parse"
        assert drain(session, taken) == list(range(21, 100))
        metrics = runner_of(hook).metrics()
        assert [metrics[name]["errors"] for name in ("io", "lookup")] == [1, 1]


def test_a_thread_that_is_told_to_exit_ends_the_stage() -> None:
    fed = tf.placeholder(tf.int64, [])

    def leave() -> int:
        raise SystemExit("enough")

    taken = staged(staged(fed, {fed: leave}), name="last")
    with tf.Session() as session, prefetching(session):
        for _ in range(2):
            with pytest.raises(tf.errors.UnknownError, match="SystemExit: enough"):
                session.run(taken)
        wait_until(lambda: prefetch_threads() == [], "end of threads")


def test_ignored_errors_skip_the_batch_and_are_counted() -> None:
    source = failing_at(30, 12)
    taken = two_stages(source, ignored_exception_types=(tf.errors.InvalidArgumentError,))
    with tf.Session() as session, prefetching(session) as hook:
        assert drain(session, taken) == [n for n in range(30) if n != 12]
        assert runner_of(hook).metrics()["io"]["ignored"] == 1


def test_an_ignored_batch_after_a_stage_does_not_block_later_ones() -> None:
    first = staged(numbers(40), capacity=2)
    with tf.control_dependencies([tf.Assert(tf.not_equal(first % 10, 5), ["unlucky"])]):
        checked = tf.identity(first)
    ignored = tf.errors.InvalidArgumentError
    taken = staged(checked, num_threads=4, capacity=2, ignored_exception_types=ignored)
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == [n for n in range(40) if n % 10 != 5]


def test_python_errors_of_a_py_func_count_as_their_class() -> None:
    def pick(number: int) -> int:
        if number == 3:
            raise LookupError("no row 3")
        if number == 8:
            raise EOFError("enough")
        return number

    picked = tf.py_func(pick, [numbers()], tf.int64)
    taken = staged(picked, closed_exception_types=EOFError, ignored_exception_types=[LookupError])
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == [0, 1, 2, 4, 5, 6, 7]


def test_ignoring_endless_errors_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "IGNORED_IN_A_ROW_LIMIT", 5)
    source = tf.string_to_number(tf.constant("torn"))
    taken = staged(source, ignored_exception_types=tf.errors.InvalidArgumentError, name="io")
    message = "'io' ignored 5 batches in a row"
    with tf.Session() as session, prefetching(session):
        for _ in range(3):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                session.run(taken)


@pytest.mark.parametrize("capacity", [1, 1000000])
def test_stopping_is_quick_and_main_learns_of_it(capacity: int) -> None:
    taken = staged(two_stages(numbers()), capacity=capacity, num_threads=2, name="last")
    with tf.Session() as session, prefetching(session) as hook:
        assert session.run(taken) == 0
        start = time.monotonic()
        hook.end(session)
        assert time.monotonic() - start < STOP_SECONDS
        wait_until(lambda: prefetch_threads() == [], "threads that end")
        with pytest.raises(tf.errors.CancelledError, match="prefetching has stopped"):
            session.run(taken)
        hook.end(session)


def test_the_coordinators_stop_ends_the_threads() -> None:
    two_stages(numbers())
    coordinator = tf.train.Coordinator()
    with tf.Session() as session, prefetching(session, coordinator):
        start = time.monotonic()
        coordinator.request_stop()
        coordinator.join(stop_grace_period_secs=20)
        assert time.monotonic() - start < STOP_SECONDS
        assert prefetch_threads() == []


def test_the_coordinator_joins_once_the_input_has_ended() -> None:
    taken = two_stages(numbers(3))
    coordinator = tf.train.Coordinator()
    with tf.Session() as session, prefetching(session, coordinator):
        drain(session, taken)
        coordinator.join()
        assert not coordinator.should_stop()


def test_a_step_that_waits_for_its_source_does_not_hold_up_the_stop(
    warnings_logged: List[str],
) -> None:
    never = tf.FIFOQueue(1, tf.int64, [])
    begun = threading.Event()
    with tf.control_dependencies([tf.py_func(begun.set, [], [])]):
        waiting = never.dequeue()  # Only this: the second stage would set `begun`, too.
    two_stages(waiting)
    with tf.Session() as session:
        coordinator = tf.train.Coordinator()
        with prefetching(session, coordinator) as hook:
            assert begun.wait(WAIT_SECONDS)
            start = time.monotonic()
            coordinator.request_stop()
            coordinator.join(stop_grace_period_secs=20)
            hook.end(session)
            assert time.monotonic() - start < 2 * STOP_SECONDS
        # The starved threads after it have ended, and the user is told which one has not.
        assert stage_threads() == ["graph_opt/io/0"]
        assert ["graph_opt/io/0 still" in message for message in warnings_logged] == [True]
    # Closing the session ends the step: the fixture checks that the thread is gone.


def test_closing_the_session_ends_the_threads_without_the_hook() -> None:
    taken = two_stages(numbers())
    session = tf.Session()
    make_prefetch_hook().after_create_session(session)
    session.run(taken)
    session.close()
    wait_until(lambda: prefetch_threads() == [], "end of threads")


def test_several_hooks_start_the_threads_once() -> None:
    taken = two_stages(numbers(20))
    with tf.Session() as session, prefetching(session), prefetching(session) as second:
        assert runner_of(second).stages == []
        assert len(stage_threads()) <= 3
        assert drain(session, taken) == list(range(20))


def test_a_reinitialized_iterator_gives_a_second_epoch() -> None:
    iterator = tf.data.make_initializable_iterator(tf.data.Dataset.range(5))
    taken = two_stages(iterator.get_next())
    hook = make_prefetch_hook()
    with tf.Session() as session:
        for _ in range(3):
            session.run(iterator.initializer)
            hook.after_create_session(session)
            assert drain(session, taken) == list(range(5))
        hook.end(session)


def test_a_runner_can_be_used_only_once() -> None:
    two_stages(numbers())
    with tf.Session() as session:
        runner = StageRunner(stages_of(session.graph), session)
        runner.start()
        with pytest.raises(RuntimeError, match="make a new one"):
            runner.start()
        runner.stop()
        with pytest.raises(RuntimeError, match="make a new one"):
            runner.start()


def test_a_hook_that_does_not_start_automatically() -> None:
    taken = two_stages(numbers())
    hook = make_prefetch_hook(start=False)
    with tf.Session() as session:
        hook.after_create_session(session)
        assert prefetch_threads() == []
        hook.start(session)
        assert session.run(taken) == 0
        hook.end(session)


def test_a_graph_without_stages_needs_no_threads() -> None:
    with tf.Session() as session, prefetching(session) as hook:
        assert hook.runner is None and session.run(tf.constant(3)) == 3


def test_the_stages_run_from_a_graph_def_alone() -> None:
    two_stages(numbers(6))
    graph_def = graph_opt.running_graph_def()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="imported")
        taken = graph.get_tensor_by_name("imported/lookup/TensorBufferTake:0")
        assert [stage.name for stage in stages_of(graph)] == ["io", "lookup"]
        with tf.Session() as session, prefetching(session):
            assert drain(session, taken) == list(range(6))


def test_neither_graph_nor_session_is_kept_alive() -> None:
    with tf.Graph().as_default() as graph:
        fed = tf.placeholder(tf.int64, [])
        taken = staged(fed, {fed: numbers(3)})
        with tf.Session() as session, prefetching(session):
            drain(session, taken)
    references = [weakref.ref(graph), weakref.ref(session)]
    del graph, session, fed, taken
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_the_users_own_thread_may_take_at_the_same_time() -> None:
    taken = staged(numbers(100), capacity=1, num_clients=2)
    values: List[int] = []
    with tf.Session() as session, prefetching(session):
        users = [
            threading.Thread(target=lambda: values.extend(drain(session, taken))) for _ in range(2)
        ]
        for user in users:
            user.start()
        for user in users:
            user.join()
    assert sorted(values) == list(range(100))
