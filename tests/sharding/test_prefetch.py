"""Prefetched lookups in divided tables: ranks stay together, whatever one of them meets."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import pytest

from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from tests.sharding.prefetched_ranks import (
    BATCH,
    prefetching,
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
