"""Prefetched lookups in divided tables: ranks stay together, whatever one of them meets."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.sharding.prefetched_ranks import (
    BATCH,
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


@pytest.mark.parametrize("threads", [1, 3])
def test_lookups_of_all_ranks_are_prefetched(threads: int) -> None:
    stock = train([6, 6, 6], None)
    assert train([6, 6, 6], prefetching(threads)) == stock


@pytest.mark.parametrize("threads", [1, 3])
def test_all_ranks_end_with_the_first_whose_input_ends(threads: int) -> None:
    stock = train([9, 9], None)
    assert train([9, 4], prefetching(threads)) == [steps[:4] for steps in stock]
    assert train([0, 4], prefetching(threads)) == [[], []]


@pytest.mark.parametrize("threads", [1, 3])
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
