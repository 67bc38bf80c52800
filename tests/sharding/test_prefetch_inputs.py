"""Where the batches of prefetched lookups in sharded tables may come from."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np

import graph_opt
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sok.communication import communicating_through
from tests.session.small_model import report_on
from tests.sharding.prefetched_ranks import (
    BATCH,
    USERS,
    WIDTH,
    ids_of,
    prefetching,
    rank_dataset,
)


def pooled_users(ids: Any) -> Any:
    """Rows of a table that is sharded across ranks."""
    rows = np.arange(USERS * WIDTH, dtype=np.float32).reshape(USERS, WIDTH)
    return sok.lookup_sparse(sok.Variable(rows, name="users"), ids_of(ids), combiners="sum")


def trained(pooled: Any) -> Any:
    """An op that trains the table, by nothing."""
    step = tf.train.get_or_create_global_step()
    return tf.train.GradientDescentOptimizer(0.0).minimize(tf.reduce_sum(pooled), step)


def chosen_input(transport: InProcessTransport) -> None:
    """Steps choose between two iterators by a string handle."""
    with communicating_through(transport), tf.Graph().as_default():
        dataset = rank_dataset(transport.rank, 6)
        iterators = [tf.data.make_initializable_iterator(dataset) for _ in range(2)]
        handle = tf.placeholder(tf.string, [])
        types, shapes = tf.data.get_output_types(dataset), tf.data.get_output_shapes(dataset)
        rows = tf.data.Iterator.from_string_handle(handle, types, shapes).get_next()
        pooled = pooled_users(rows % USERS)
        train_op = trained(pooled)
        with graph_opt.Session(config=prefetching(2)) as session:
            session.run([tf.global_variables_initializer(), *(i.initializer for i in iterators)])
            handles = session.run([iterator.string_handle() for iterator in iterators])
            seen: Dict[int, List[Any]] = {0: [], 1: []}
            for choice in (0, 1, 0, 0, 1, 1, 0):
                first = session.run([rows, pooled, train_op], {handle: handles[choice]})
                assert list(first[1][:, 0]) == list(first[0] % USERS * WIDTH)
                seen[choice].append(int(first[0][0]) % 1000 // BATCH)
        assert seen == {0: [0, 1, 2, 3], 1: [0, 1, 2]}


def test_each_of_several_inputs_exchanges_messages_of_its_own() -> None:
    run_ranks(2, chosen_input, 30)


def fed_input(transport: InProcessTransport) -> List[int]:
    """A stage feeds batches from Python; rank 0 has one more."""
    with communicating_through(transport), tf.Graph().as_default():
        batches = iter(range(5 - transport.rank))
        fed = tf.placeholder(tf.int64, [None])
        staged = graph_opt.staged(
            {"row": fed + 0}, feed_dict={fed: lambda: np.arange(BATCH) + next(batches)}
        )
        train_op = trained(pooled_users(staged["row"]))
        first = []
        with graph_opt.train.MonitoredTrainingSession(config=prefetching()) as session:
            while not session.should_stop():
                first.append(int(session.run([staged["row"], train_op])[0][0]))
        return first


def test_batches_may_be_fed_and_sessions_monitored() -> None:
    assert run_ranks(2, fed_input, 30) == [[0, 1, 2, 3]] * 2


def chained(transport: InProcessTransport) -> None:
    """Ids that depend on the rows of another exchange."""
    with communicating_through(transport), tf.Graph().as_default() as graph:
        rows = tf.data.make_one_shot_iterator(rank_dataset(transport.rank, 4)).get_next()
        first = pooled_users(rows % USERS)
        second = pooled_users(tf.cast(first[:, 0], tf.int64) % USERS)
        train_op = trained(second)
        with graph_opt.Session(config=prefetching()) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                ids, pooled, _ = session.run([rows, second, train_op])
                assert list(pooled[:, 0]) == list(ids % USERS * WIDTH % USERS * WIDTH)
        moved, left = report_on(graph).lookups
        assert moved.stage and left.refusal is not None
        assert left.refusal["code"] == "collective_upstream"
        assert left.refusal["need"] == "ids that do not depend on another exchange"


def test_an_exchange_behind_another_stays_in_main() -> None:
    run_ranks(2, chained, 30)
