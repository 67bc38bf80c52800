"""Ranks whose graphs differ, that do not come, or keep others waiting: all ranks are told."""

from __future__ import annotations

import re
import threading
from typing import Any, Callable, List

import numpy as np
import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.plan_agreement import PlanAgreement
from graph_opt.sok.communication import communicating_through
from tests.sharding.guarded_model import build
from tests.sharding.prefetched_ranks import (
    BATCH,
    prefetching,
    rank_dataset,
    rank_model,
    steps_to_end,
)

ODD = 1  # the rank that differs
BATCHES = 12
IDS = np.array([[0, 1]])


def errors_of(size: int, work: Callable[[InProcessTransport], Any]) -> List[tf.errors.OpError]:
    """What `work` raises on each rank."""

    def with_graph(transport: InProcessTransport) -> tf.errors.OpError:
        with communicating_through(transport), tf.Graph().as_default():
            with pytest.raises(tf.errors.OpError) as raised:
                work(transport)
            return raised.value

    return run_ranks(size, with_graph, 60)


def limited(seconds: int) -> Any:
    config = graph_opt.ConfigProto()
    config.graph_options.optimizer_options.stall_seconds = seconds
    return config


def look_up(widths: List[int], combiner: str = "sum") -> List[Any]:
    tables = [sok.Variable(np.ones([5, width], np.float32), name="table") for width in widths]
    ids = tf.RaggedTensor.from_tensor(tf.constant(IDS))
    return sok.lookup_sparse(tables, [ids] * len(tables), combiners=[combiner] * len(tables))


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (
            lambda: look_up([4, 2]),
            'tables of lookup 0: ["table"] on rank 0, but ["table", "table_1"] on rank 1',
        ),
        (lambda: look_up([8]), "widths of the tables of lookup 0: [4] on rank 0, but [8] on rank"),
        (lambda: look_up([4], "mean"), 'combiners of lookup 0: ["sum"] on rank 0, but ["mean"] on'),
        (
            lambda: [look_up([4]), look_up([4])],
            "rank 1 has message 'graph_opt_exchange_1_ids' and rank 0 has not",
        ),
    ],
)
def test_all_ranks_are_told_how_their_graphs_differ(odd: Any, told: str) -> None:
    def work(transport: InProcessTransport) -> None:
        fetches = odd() if transport.rank == ODD else look_up([4])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(fetches)

    for error in errors_of(3, work):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert error.message.startswith("ranks are about to run different graphs: " + told)
        assert error.message.endswith("build the same graph, with the same options, on all ranks")


def test_steps_of_other_kinds_are_compared_too_and_equal_ones_once() -> None:
    def work(transport: InProcessTransport) -> None:
        sums = look_up([4])
        means = look_up([4] if transport.rank == ODD else [4, 4], "mean")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(sums)
                session.run([sums, tf.constant(transport.rank)])
            session.run(means)

    for error in errors_of(2, work):
        assert "tables of lookup 0: " in error.message


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (
            prefetching(3, 2),
            "stage 'async_embedding': threads_num 2, capacity 2, ordered on rank 0",
        ),
        pytest.param(
            prefetching(2, 4),
            "stage 'async_embedding': threads_num 2, capacity 2, ordered on rank 0",
            marks=pytest.mark.slow,
        ),
        (None, "rank 0 has stage 'async_embedding' and rank 1 has not"),
    ],
    ids=["threads", "capacity", "no stage"],
)
def test_all_ranks_are_told_how_their_stages_differ(odd: Any, told: str) -> None:
    def work(transport: InProcessTransport) -> None:
        model = rank_model(rank_dataset(transport.rank, 9))
        config = odd if transport.rank == ODD else prefetching(2, 2)
        with graph_opt.Session(config=config) as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            session.run(model.train_op)

    for error in errors_of(3, work):
        assert isinstance(error, tf.errors.InvalidArgumentError)
        assert "ranks are about to run different graphs: " + told in error.message


@pytest.mark.slow
def test_a_rank_that_exchanges_nothing_is_named() -> None:
    def work(transport: InProcessTransport) -> None:
        ids = tf.constant(IDS)
        if transport.rank == ODD:
            weight = tf.get_variable("weight", [])
            train = tf.train.GradientDescentOptimizer(0.1).minimize(weight)
            look_up([4])  # not used
        else:
            train = build(ids).train
        with graph_opt.Session(config=limited(1)) as session:
            session.run(tf.global_variables_initializer())
            while True:
                session.run(train)

    for error in errors_of(3, work):
        assert error.message.startswith("rank 1 trains without any message to the others")


def test_a_rank_that_has_trained_something_alone_before_may_come_late() -> None:
    looks = threading.Semaphore(0)

    def work(transport: InProcessTransport) -> None:
        assert transport.store is not None
        plans = PlanAgreement(transport.store, transport.rank, transport.size)
        if transport.rank == ODD:
            plans.note_step_without_messages()
            for _ in range(4):
                assert looks.acquire(timeout=60)
        plans.agree(b"the same", looks.release, 0.0)

    run_ranks(2, work, 60)


def test_a_rank_that_never_comes_is_named() -> None:
    def work(transport: InProcessTransport) -> None:
        model = build(tf.constant(IDS))
        if transport.rank == ODD:
            raise tf.errors.NotFoundError(None, None, "no data for this rank")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(model.train)

    group = []

    def all_ranks(transport: InProcessTransport) -> None:
        try:
            work(transport)
        finally:
            group.append(transport.rank)

    with pytest.raises(tf.errors.NotFoundError, match="no data for this rank"):
        run_ranks(3, lambda one: _in_graph(one, all_ranks), 60)
    assert sorted(group) == [0, 1, 2]


def _in_graph(transport: InProcessTransport, work: Callable[[InProcessTransport], Any]) -> Any:
    with communicating_through(transport), tf.Graph().as_default():
        return work(transport)


@pytest.mark.slow
def test_a_rank_that_keeps_others_waiting_is_named() -> None:
    told = threading.Event()

    def work(transport: InProcessTransport) -> None:
        model = build(tf.constant(IDS))
        with graph_opt.Session(config=limited(1)) as session:
            session.run(tf.global_variables_initializer())
            session.run(model.train)
            if transport.rank == ODD:
                assert told.wait(60)
            try:
                session.run(model.train)
            finally:
                told.set()

    for error in errors_of(2, work):
        assert isinstance(error, tf.errors.DeadlineExceededError)
        pattern = (
            r"rank 1 has kept rank 0 waiting for \d+ s, which is more than stall_seconds \(1\): "
            r"rank 0 has been in step 2 for \d+ s, and has sent 'graph_opt_exchange_ids' last; "
            r"rank 1 has been outside of steps for \d+ s, after 1 of them"
        )
        assert re.match(pattern, error.message), error.message


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="stall_seconds is -1, must be at"):
        graph_opt.Session(config=limited(-1))


@pytest.mark.slow
@pytest.mark.parametrize("alone", [0, 1])
def test_a_step_that_one_rank_runs_alone_is_an_error_there_and_training_goes_on(alone: int) -> None:
    def work(transport: InProcessTransport) -> float:
        with communicating_through(transport), tf.Graph().as_default():
            model = build(tf.constant(IDS))
            with graph_opt.Session(config=limited(30)) as session:
                session.run(tf.global_variables_initializer())
                session.run(model.train)
                if transport.rank == alone:
                    with pytest.raises(tf.errors.InvalidArgumentError, match="is in another step"):
                        session.run(model.total)
                    with pytest.raises(tf.errors.InvalidArgumentError, match="on all ranks"):
                        session.run(model.total)
                session.run(model.train)
                return float(session.run(model.total))

    assert run_ranks(2, work, 60) == [4.0, 4.0]


@pytest.mark.slow
def test_a_step_that_one_rank_runs_alone_takes_no_batch_of_those_that_were_prefetched() -> None:
    def work(transport: InProcessTransport) -> List[int]:
        with communicating_through(transport), tf.Graph().as_default():
            model = rank_model(rank_dataset(transport.rank, BATCHES))
            config = prefetching()
            config.graph_options.optimizer_options.stall_seconds = 30
            with graph_opt.Session(config=config) as session:
                session.run([tf.global_variables_initializer(), model.iterator.initializer])
                session.run(model.train_op)
                if transport.rank == 0:
                    for _ in range(4):  # more than the buffer holds
                        with pytest.raises(tf.errors.InvalidArgumentError, match="in another step"):
                            session.run(model.loss)
                return [row for row, _ in steps_to_end(session, model)]

    batches = range(1, BATCHES)
    assert run_ranks(2, work, 60) == [
        [1000 * rank + BATCH * batch for batch in batches] for rank in range(2)
    ]
