"""Prefetched lookups in sharded tables: ranks stay together, whatever one of them meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.horovod_processes import NEEDS_HOROVOD, check_all_done
from tests.quick_cases import slow_but
from tests.release_features import needs_estimators
from tests.session.small_model import report_on
from tests.sharding.prefetched_ranks import (
    BATCH,
    USERS,
    ids_of,
    prefetching,
    rank_dataset,
    rank_model,
    train_rank,
)

Parse = Callable[[Any], Any]


def train(batches: List[int], config: Any, parses: Optional[List[Any]] = None) -> List[Any]:
    """The steps of all ranks."""

    def work(transport: InProcessTransport) -> Any:
        parse = parses[transport.rank] if parses else None
        return train_rank(transport, batches[transport.rank], config, parse)

    results = run_ranks(len(batches), work, 30)
    for result in results if config is not None else ():
        assert [lookup.stage for lookup in result["report"].lookups] == ["async_embedding"] * 2
    return [result["steps"] for result in results]


def failing_at(batch: int, error: Callable[[], BaseException]) -> Parse:
    """Raises an error in place of the batch with this number."""

    def parse(rows: Any) -> Any:
        def check(values: Any) -> Any:
            if values[0] % 1000 == batch * BATCH:
                raise error()
            return values

        checked = tf.py_func(check, [rows], tf.int64)
        checked.set_shape(rows.shape)
        return checked

    return parse


@pytest.mark.parametrize("threads", slow_but([1, 3], 1))
def test_lookups_of_all_ranks_are_prefetched(threads: int) -> None:
    stock = train([6, 6, 6], None)
    assert train([6, 6, 6], prefetching(threads)) == stock


@pytest.mark.parametrize("threads", slow_but([1, 3], 3))
def test_all_ranks_end_with_the_first_whose_input_ends(threads: int) -> None:
    stock = train([9, 9], None)
    assert train([9, 4], prefetching(threads)) == [steps[:4] for steps in stock]
    assert train([0, 4], prefetching(threads)) == [[], []]


@pytest.mark.parametrize("threads", slow_but([1, 3], 3))
def test_a_bad_batch_of_one_rank_is_an_error_on_all_and_the_next_goes_on(threads: int) -> None:
    stock = train([7, 7], None)
    parses = [None, failing_at(3, lambda: ValueError("row 17 is torn"))]
    both = train([7, 7], prefetching(threads), parses)
    for steps, expected in zip(both, stock):
        code, message = steps[3]
        assert code == tf.errors.INVALID_ARGUMENT and "rank 1: " in message
        assert "ValueError: row 17 is torn" in message
        assert steps[:3] + steps[4:] == expected[:3] + expected[4:]


def first_rows(session: Any, model: Any, steps: int) -> List[int]:
    """The first row of each batch, without that of its rank."""
    return [
        int(session.run([model.rows, model.train_op])[0][0]) % 1000 // BATCH for _ in range(steps)
    ]


def opened_and_closed(transport: InProcessTransport) -> None:
    """Sessions that stop in the middle, one after another, and iterators that start again."""
    with communicating_through(transport), tf.Graph().as_default():
        model = rank_model(rank_dataset(transport.rank, 40))
        for _ in range(2):
            with graph_opt.Session(config=prefetching(2)) as session:
                session.run(tf.global_variables_initializer())
                for _ in range(2):
                    session.run(model.iterator.initializer)
                    assert first_rows(session, model, 3) == [0, 1, 2]
        with graph_opt.Session(config=prefetching()) as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            first_rows(session, model, 1)
            other = graph_opt.Session(config=prefetching())
            other.run([tf.global_variables_initializer(), model.iterator.initializer])
            with pytest.raises(tf.errors.FailedPreconditionError, match="another open session"):
                other.run(model.rows)


def test_sessions_end_together_and_others_follow() -> None:
    run_ranks(2, opened_and_closed, 30)


def alternating(transport: InProcessTransport) -> None:
    """Two graphs whose sessions are open at once."""
    with communicating_through(transport):
        models = []
        for _ in range(2):
            with tf.Graph().as_default() as graph:
                model = rank_model(rank_dataset(transport.rank, 40))
                session = graph_opt.Session(graph=graph, config=prefetching(2))
                session.run([tf.global_variables_initializer(), model.iterator.initializer])
                models.append((session, model))
        for step in range(8):
            for session, model in models:
                assert first_rows(session, model, 1) == [step]
        for session, _ in models:
            session.close()


def test_sessions_of_two_graphs_may_be_open_at_once() -> None:
    run_ranks(2, alternating, 30)


def of_two_inputs(transport: InProcessTransport, config: Any, *counts: int) -> List[Any]:
    """Two inputs, one of which needs two exchanges: its tables have different types."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        inputs = [rank_dataset(transport.rank, count) for count in counts]
        iterators = [tf.data.make_initializable_iterator(dataset) for dataset in inputs]
        rows = [iterator.get_next() for iterator in iterators]
        tables = [
            sok.Variable(tf.cast(tf.reshape(tf.range(92), [23, 4]), dtype), dtype=dtype)
            for dtype in (tf.float32, tf.float16)
        ]
        ids = ids_of(rows[0] % USERS)
        both = sok.lookup_sparse(tables, [ids, ids], combiners=["sum", "mean"])
        other = sok.lookup_sparse(tables[0], ids_of(rows[1] % USERS), combiners="sum")
        pooled = [tf.cast(one, tf.float32) for one in (*both, other)]
        # Every gradient needs both inputs: a step without one of them sends none.
        loss = tf.math.log1p(tf.add_n([tf.reduce_sum(one) for one in pooled]))
        train_op = tf.train.GradientDescentOptimizer(0.0).minimize(loss)
        with graph_opt.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            session.run([iterator.initializer for iterator in iterators])
            steps: List[Any] = []
            try:
                while True:
                    steps.append([float(one) for one in session.run([loss, train_op])[:1]])
            except tf.errors.OutOfRangeError:
                pass
        if config is not None:
            assert len(report_on(graph).stages) == 2
            assert all(lookup.stage for lookup in report_on(graph).lookups)
        return steps


def test_each_input_has_a_stage_and_tables_of_any_type_an_exchange() -> None:
    stock = run_ranks(2, lambda rank: of_two_inputs(rank, None, 5, 5), 30)
    assert len(stock[0]) == 5
    assert run_ranks(2, lambda rank: of_two_inputs(rank, prefetching(2), 6, 5), 30) == stock


@needs_estimators
@pytest.mark.slow
@NEEDS_HOROVOD
def test_estimators_of_two_ranks_of_horovod(tmp_path: Path) -> None:
    check_all_done(2, "tests.sharding.horovod_prefetch", str(tmp_path))
