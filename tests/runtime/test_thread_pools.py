"""Stage subgraph thread pools: the stage's kernels run on separate threads."""

from __future__ import annotations

import threading
from typing import Any, List, Set

import pytest

from graph_opt.compat import tf
from graph_opt.runtime.staged import staged
from tests.runtime.sources import drain, numbers, prefetching


def config_with_pools(*sizes: int) -> Any:
    """A stock config: pool 0 is main's, with two threads; the others belong to stages."""
    config = tf.ConfigProto(inter_op_parallelism_threads=2)
    config.session_inter_op_thread_pool.add().num_threads = 2
    for size in sizes:
        config.session_inter_op_thread_pool.add().num_threads = size
    return config


def recording(tensor: Any, threads: Set[int]) -> Any:
    """The tensor, passed through an op that records the thread its kernel runs on."""

    def note(value: Any) -> Any:
        threads.add(threading.get_ident())
        return value

    return tf.py_func(note, [tensor], tensor.dtype)


def test_kernels_of_a_stage_run_on_the_threads_of_its_pool_only() -> None:
    main: Set[int] = set()
    stages: List[Set[int]] = [set(), set()]
    values = numbers(60)
    for pool, threads in enumerate(stages):
        parts = [recording(values, threads) for _ in range(3)]
        values = staged(
            tf.add_n(parts) // 3,
            capacity=2,
            num_threads=2,
            use_stage_subgraph_thread_pool=True,
            stage_subgraph_thread_pool_id=pool,
        )
    fetch = recording(values, main)
    with tf.Session(config=config_with_pools(2, 1)) as session, prefetching(session):
        assert sorted(drain(session, fetch)) == list(range(60))
    assert len(stages[0]) in (1, 2) and len(stages[1]) == 1
    assert not stages[0] & stages[1] and not (stages[0] | stages[1]) & main
    assert threading.get_ident() not in main | stages[0] | stages[1]


@pytest.mark.parametrize(
    "config, pool, has",
    [(None, 0, 0), (tf.ConfigProto(), 0, 0), (config_with_pools(1), 1, 1)],
)
def test_a_pool_that_the_session_lacks_is_an_error_when_the_threads_start(
    config: Any, pool: int, has: int
) -> None:
    staged(
        numbers(),
        use_stage_subgraph_thread_pool=True,
        stage_subgraph_thread_pool_id=pool,
        name="input",
    )
    message = "'input' asks for stage subgraph thread pool {}, .* has {}".format(pool, has)
    with tf.Session(config=config) as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            with prefetching(session):
                pass


def test_a_pool_id_without_the_pool_option_has_no_effect() -> None:
    taken = staged(numbers(3), stage_subgraph_thread_pool_id=7)
    with tf.Session() as session, prefetching(session):
        assert drain(session, taken) == [0, 1, 2]


def test_a_grpc_session_has_no_pools_and_says_so_once(
    server: Any, warnings_logged: List[str]
) -> None:
    first = staged(numbers(5), use_stage_subgraph_thread_pool=True, name="pools/first")
    taken = staged(first, use_stage_subgraph_thread_pool=True, name="pools/second")
    with tf.Session(server.target) as session:
        with prefetching(session):
            assert drain(session, taken) == list(range(5))
    assert len(warnings_logged) == 1 and "thread_pool" in warnings_logged[0]
