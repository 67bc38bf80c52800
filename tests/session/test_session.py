"""`graph_opt.Session`: a stock session's results, and threads that start and end on their own."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from typing import Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.runtime import claims
from graph_opt.runtime.metrics import buffer_metrics
from graph_opt.session.graph_records import report_of
from tests.conftest import THREAD_END_SECONDS
from tests.quick_cases import slow_but
from tests.session.small_model import (
    async_config,
    initialize,
    report_on,
    row_batches,
    run_to_end,
    small_model,
    stock_losses,
)

LeftBehind = Callable[[], List[str]]


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: LeftBehind) -> LeftBehind:
    return threads_left_behind


def prefetch_threads() -> List[str]:
    """Those of stages: sessions on servers, which other tests may have left, make calls in more."""
    names = [thread.name for thread in threading.enumerate() if "graph_opt/" in thread.name]
    return [name for name in names if name != "graph_opt/calls"]


def wait_for_end_of_prefetch_threads() -> None:
    """Another thread closes a session that was collected."""
    deadline = time.monotonic() + THREAD_END_SECONDS
    while prefetch_threads() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert prefetch_threads() == []


@pytest.mark.parametrize("threads", slow_but([1, 4], 4))
def test_losses_equal_stock_step_by_step_and_each_batch_comes_once(threads: int) -> None:
    expected = stock_losses()
    model = small_model()
    with graph_opt.Session(config=async_config(threads)) as session:
        initialize(session, model)
        fetches = [model.features["row"], model.loss, model.train_op]
        steps = run_to_end(session, fetches)
    assert len(report_on(session.graph).moved) == 2
    assert [list(row) for row, _, _ in steps] == row_batches()
    np.testing.assert_array_equal([loss for _, loss, _ in steps], expected)


def test_a_config_without_async_embedding_changes_no_graph() -> None:
    model = small_model(learning_rate=0.1)
    nodes = len(model.loss.graph.get_operations())
    with graph_opt.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        initialize(session, model)
        losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
        assert len(session.graph.get_operations()) == nodes + 1  # the initializer of `initialize`
    np.testing.assert_array_equal(losses, stock_losses(learning_rate=0.1))


def test_a_stock_config_that_carries_our_options_counts() -> None:
    model = small_model()
    stock = tf.ConfigProto.FromString(async_config().SerializeToString())
    with graph_opt.Session(config=stock) as session:
        initialize(session, model)
        session.run(model.loss)
        assert report_on(session.graph).stages != ()


def test_options_are_checked_when_the_session_is_made() -> None:
    config = async_config()
    config.graph_options.optimizer_options.async_embedding_options.capacity = 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="capacity is 0, must be at least 1"):
        graph_opt.Session(config=config)


def test_the_graph_is_optimized_at_the_first_run_so_it_may_be_built_after_the_session() -> None:
    with graph_opt.Session(config=async_config()) as session:
        model = small_model()
        assert report_of(session.graph) is None
        initialize(session, model)
        assert len(run_to_end(session, model.train_op)) == len(row_batches())


def test_initializers_start_no_threads_and_the_first_batch_does() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config(threads=2)) as session:
        initialize(session, model)
        session.run(model.global_step)
        assert prefetch_threads() == []
        session.run(model.loss)
        assert session.stage_threads.started == {"async_embedding", "async_embedding_io"}


def test_a_stage_of_staged_runs_without_a_hook_and_without_a_config() -> None:
    model = small_model(capacity=2)
    with graph_opt.Session() as session:
        initialize(session, model)
        rows = run_to_end(session, model.features["row"])
    assert [list(row) for row in rows] == row_batches()


def test_staged_features_and_async_embedding_work_together() -> None:
    model = small_model(capacity=2)
    with graph_opt.Session(config=async_config(threads=2, infer_io_stage=False)) as session:
        initialize(session, model)
        losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
    np.testing.assert_array_equal(losses, stock_losses())


def test_without_an_io_stage_the_error_says_how_to_add_one() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config(infer_io_stage=False)) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"graph_opt\.staged"):
            session.run(model.loss)


def test_a_graph_without_any_input_is_unchanged() -> None:
    table = tf.get_variable("table", [4, 2], use_resource=False)
    ids = tf.placeholder(tf.int64, [None])
    rows = tf.nn.embedding_lookup(table, ids)
    with graph_opt.Session(config=async_config()) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(rows, {ids: [1, 3]}).shape == (2, 2)
        assert report_on(session.graph).stages == ()


def test_a_hook_on_a_plain_session_of_ours_starts_the_threads_once() -> None:
    model = small_model()
    graph_opt.optimize_graph(tf.get_default_graph(), async_config())
    hook = graph_opt.make_prefetch_hook()
    with graph_opt.Session() as session:
        initialize(session, model)
        hook.after_create_session(session)
        rows = run_to_end(session, model.features["row"])
        assert [list(row) for row in rows] == row_batches()
        session.run(model.iterator.initializer)
        assert len(run_to_end(session, model.loss)) == len(row_batches())
        hook.end(session)


def test_metrics_and_close_see_the_threads_of_the_session() -> None:
    model = small_model()
    session = graph_opt.Session(config=async_config())
    initialize(session, model)
    session.run(model.loss)
    metrics = buffer_metrics(session)["async_embedding"]
    # A thread counts its step after main may have taken the batch.
    assert metrics["put_count"] >= 1 and metrics["steps"] >= 0 and metrics["threads"] >= 1
    session.close()
    assert prefetch_threads() == []
    session.close()


def test_a_forgotten_session_ends_its_threads() -> None:
    model = small_model()
    session = graph_opt.Session(config=async_config())
    initialize(session, model)
    session.run(model.loss)
    assert prefetch_threads() != []
    forgotten = weakref.ref(session)
    del session
    deadline = time.monotonic() + THREAD_END_SECONDS
    while forgotten() is not None and time.monotonic() < deadline:
        gc.collect()  # Does nothing while another thread collects.
    assert forgotten() is None
    wait_for_end_of_prefetch_threads()


def test_a_session_may_be_collected_wherever_a_thread_holds_a_lock() -> None:
    model = small_model()
    session = graph_opt.Session(config=async_config())
    initialize(session, model)
    session.run(model.loss)
    session.itself = session
    forgotten = weakref.ref(session)
    del session

    class CollectsWhenHashed:
        def __hash__(self) -> int:
            while forgotten() is not None:
                gc.collect()  # Does nothing while another thread collects.
            return 0

    # Its key is hashed under the lock that the end of a session takes.
    thread = threading.Thread(target=claims.release, args=(CollectsWhenHashed(), None), daemon=True)
    thread.start()
    thread.join(THREAD_END_SECONDS)
    assert not thread.is_alive()
    wait_for_end_of_prefetch_threads()


def test_a_session_may_be_forgotten_while_a_thread_extends_its_graph() -> None:
    extends, forgotten = threading.Event(), threading.Event()

    class Extended(graph_opt.Session):
        def _extend_graph(self) -> None:
            super()._extend_graph()
            if "graph_opt/" in threading.current_thread().name:
                extends.set()
                forgotten.wait(THREAD_END_SECONDS)

    model = small_model()
    session = Extended(config=async_config())
    initialize(session, model)
    session.run(model.loss)
    assert extends.wait(THREAD_END_SECONDS)
    ended = weakref.ref(session)
    del session
    forgotten.set()
    wait_for_end_of_prefetch_threads()
    assert ended() is None


def test_an_error_in_the_block_ends_the_threads() -> None:
    model = small_model()
    with pytest.raises(ZeroDivisionError):
        with graph_opt.Session(config=async_config(threads=3)) as session:
            initialize(session, model)
            session.run(model.loss)
            raise ZeroDivisionError
    assert prefetch_threads() == []


def test_callables_and_eval_map_fetches_and_start_threads() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        fetch_row = session.make_callable(model.features["row"])
        fetch_nest = session.make_callable({"row": [model.features["row"]], "step": model.train_op})
        assert prefetch_threads() == []
        assert list(fetch_row()) == row_batches()[0]
        nest = fetch_nest()
        assert list(nest["row"][0]) == row_batches()[1]
        assert nest["step"] is None
        assert list(model.features["row"].eval()) == row_batches()[2]
        model.train_op.run()
        metadata = tf.RunMetadata()
        fetch_traced = session.make_callable(model.features["row"], accept_options=True)
        traced = fetch_traced(
            options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata
        )
        assert list(traced) == row_batches()[4]
        assert metadata.step_stats.dev_stats


def test_callables_with_feeds_work_as_before() -> None:
    model = small_model()
    scale = tf.placeholder(tf.float32, [])
    scaled = model.loss * scale
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        call = session.make_callable([scaled, model.loss], [scale])
        doubled, plain = call(2.0)
        assert doubled == pytest.approx(2 * plain)


def test_partial_runs_map_fetches() -> None:
    model = small_model()
    scale = tf.placeholder(tf.float32, [])
    scaled = tf.identity(model.loss * scale)
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        handle = session.partial_run_setup([model.features["row"], scaled], [scale])
        assert list(session.partial_run(handle, model.features["row"])) == row_batches()[0]
        assert session.partial_run(handle, scaled, {scale: 0.0}) == 0.0


def test_interactive_sessions_prefetch_too() -> None:
    model = small_model()
    session = graph_opt.InteractiveSession(config=async_config())
    initialize(session, model)
    assert list(model.features["row"].eval()) == row_batches()[0]
    session.close()


def test_a_finalized_graph_is_optimized_and_stays_finalized() -> None:
    model = small_model()
    initializer = tf.global_variables_initializer()
    tf.get_default_graph().finalize()
    with graph_opt.Session(config=async_config()) as session:
        session.run([initializer, model.iterator.initializer])
        losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
        assert session.graph.finalized and len(report_on(session.graph).moved) == 2
    np.testing.assert_array_equal(losses, stock_losses())


def test_a_finalized_graph_that_was_optimized_before_runs() -> None:
    model = small_model()
    initializer = tf.global_variables_initializer()
    graph_opt.optimize_graph(tf.get_default_graph(), async_config())
    tf.get_default_graph().finalize()
    with graph_opt.Session(config=async_config()) as session:
        session.run([initializer, model.iterator.initializer])
        assert len(run_to_end(session, model.loss)) == len(row_batches())


def test_optimizing_after_a_run_is_refused() -> None:
    model = small_model()
    with graph_opt.Session() as session:
        initialize(session, model)
        with pytest.raises(tf.errors.FailedPreconditionError, match="before the first run"):
            graph_opt.optimize_graph(session.graph, async_config())
        with pytest.raises(tf.errors.FailedPreconditionError, match="a session has run it"):
            graph_opt.optimize_graph(session.graph, async_config())


def test_a_graph_that_ran_unoptimized_is_optimized_for_a_later_session() -> None:
    model = small_model()
    with graph_opt.Session() as early:
        initialize(early, model)
        first = early.run(model.features["row"])
        with graph_opt.Session(config=async_config()) as late:
            initialize(late, model)
            losses = [loss for loss, _ in run_to_end(late, [model.loss, model.train_op])]
            assert len(report_on(late.graph).moved) == 2
        rest = run_to_end(early, model.features["row"])
    assert [list(row) for row in [first, *rest]] == row_batches()
    np.testing.assert_array_equal(losses, stock_losses())


def test_an_optimized_graph_runs_in_a_second_session_and_with_another_config() -> None:
    model = small_model()
    for config in (async_config(), async_config(threads=2), None):
        with graph_opt.Session(config=config) as session:
            initialize(session, model)
            rows = run_to_end(session, model.features["row"])
            assert [list(row) for row in rows] == row_batches()


def test_two_sessions_on_one_graph_have_separate_batches() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config()) as one, graph_opt.Session() as two:
        initialize(one, model)
        initialize(two, model)
        rows = [session.run(model.features["row"]) for session in (one, two, one, two)]
    assert [list(row) for row in rows] == [row_batches()[i] for i in (0, 0, 1, 1)]


def test_a_rewritten_graph_def_is_not_rewritten_again_by_a_session() -> None:
    with tf.Graph().as_default() as original:
        model = small_model()
        initializer = tf.global_variables_initializer()
    optimized = graph_opt.optimize_graph_def(original.as_graph_def(add_shapes=True), async_config())
    tf.import_graph_def(optimized.graph_def, name="")
    with graph_opt.Session(config=async_config()) as session:
        session.run([initializer.name, model.iterator.initializer.name])
        assert len(run_to_end(session, model.loss.name)) == len(row_batches())
    with pytest.raises(tf.errors.FailedPreconditionError):
        graph_opt.optimize_graph(tf.get_default_graph(), async_config())


def test_threads_of_a_session_are_started_once_by_many_callers() -> None:
    model = small_model()
    with graph_opt.Session(config=async_config()) as session:
        initialize(session, model)
        rows: List[List[int]] = []
        callers = [
            threading.Thread(target=lambda: rows.append(list(session.run(model.features["row"]))))
            for _ in row_batches()
        ]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    assert sorted(rows) == row_batches()
