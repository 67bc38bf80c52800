"""In a strategy's scope, ranks train as one process trains on all of their batches."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt import distributed_embeddings as de
from graph_opt import sok
from graph_opt.compat import tf
from graph_opt.sharding.in_process import InProcessTransport, run_ranks
from graph_opt.sharding.transport import OneRank, Transport
from graph_opt.sharding.transport_in_use import communicating_through
from graph_opt.strategy.data_parallel import data_parallel

RANKS, BATCH, STEPS = 2, 8, 12
IDS = np.random.RandomState(1).randint(0, 20, size=[STEPS, BATCH])
Minimize = Callable[[Any, tf.Tensor], tf.Operation]


def minimized(optimizer: Any, loss: tf.Tensor) -> tf.Operation:
    return optimizer.minimize(loss, tf.train.get_or_create_global_step())


def clipped(optimizer: Any, loss: tf.Tensor) -> tf.Operation:
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    return optimizer.apply_gradients(
        zip(tf.clip_by_global_norm(gradients, 0.1)[0], variables),
        tf.train.get_or_create_global_step(),
    )


def by_hand(optimizer: Any, loss: tf.Tensor) -> tf.Operation:
    variables = tf.trainable_variables()
    pairs = zip(tf.gradients(loss, variables), variables)
    return optimizer.apply_gradients(pairs, tf.train.get_or_create_global_step())


def in_plain_session(train: tf.Operation, ids: tf.Tensor, transport: Transport) -> Any:
    with graph_opt.Session() as session:
        session.run(tf.global_variables_initializer())
        return stepped(session, train, ids, transport)


def in_stock_session(train: tf.Operation, ids: tf.Tensor, transport: Transport) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return stepped(session, train, ids, transport)


def in_monitored_session(train: tf.Operation, ids: tf.Tensor, transport: Transport) -> Any:
    with graph_opt.train.MonitoredTrainingSession() as session:
        return stepped(session, train, ids, transport)


def stepped(session: Any, train: tf.Operation, ids: tf.Tensor, transport: Transport) -> Any:
    count = BATCH // transport.size
    mine = IDS[:, count * transport.rank : count * (transport.rank + 1)]
    for batch in mine:
        session.run(train, {ids: batch})
    return session.run({one.op.name: one for one in tf.global_variables()})


@contextlib.contextmanager
def rank_of(transport: Transport) -> Iterator[None]:
    with communicating_through(transport), tf.Graph().as_default(), data_parallel():
        yield


def trained(transport: Transport, minimize: Minimize, run: Any) -> Dict[str, np.ndarray]:
    """All variables after training; each rank would start with values of its own."""
    with rank_of(transport):
        ids = tf.placeholder(tf.int64, [None])
        start = np.random.RandomState(transport.rank).uniform(size=[20, 3]).astype(np.float32)
        # By hand, nothing keeps a reference variable from changing while gradients read it.
        tf.get_variable_scope().set_use_resource(minimize is not minimized)
        table = tf.get_variable("table", initializer=start)
        weights = tf.get_variable("weights", initializer=start[:3, :1])
        scores = tf.nn.embedding_lookup(table, ids) @ weights
        loss = tf.reduce_mean(tf.square(scores[:, 0] - tf.cast(ids % 3, tf.float32)))
        train = minimize(tf.train.MomentumOptimizer(0.1, 0.9), loss)
        result: Dict[str, np.ndarray] = run(train, ids, transport)
        return result


@pytest.mark.parametrize(
    "minimize, run",
    [
        pytest.param(minimized, in_plain_session, marks=pytest.mark.slow),
        (clipped, in_monitored_session),
        (by_hand, in_stock_session),
    ],
)
def test_ranks_train_as_one_process_on_all_batches(minimize: Minimize, run: Any) -> None:
    whole = trained(OneRank(), minimize, run)
    assert whole.keys() >= {"table/Momentum", "weights/Momentum", "global_step"}
    for part in run_ranks(RANKS, lambda transport: trained(transport, minimize, run), 60):
        for name, value in whole.items():
            np.testing.assert_allclose(part[name], value, rtol=1e-4, atol=1e-6)


def test_what_a_script_reduces_is_reduced_once() -> None:
    def work(transport: InProcessTransport) -> Tuple[Any, int]:
        with rank_of(transport):
            weights = tf.get_variable("weights", initializer=[1.0])
            loss = tf.reduce_sum(weights) * (1.0 + transport.rank)
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            gradient = tf.gradients(loss, weights)[0]
            reduced = 0.5 * transport.all_reduce(gradient, "sum", transport.message_name("mine"))
            train = optimizer.apply_gradients([(tf.clip_by_value(reduced, -9.0, 9.0), weights)])
            types = [one.type for one in tf.get_default_graph().get_operations()]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                return session.run(weights), types.count("ExchangeAllToAll")

    for weights, messages in run_ranks(RANKS, work, 60):
        np.testing.assert_array_equal(weights, [-0.5])
        assert messages == 1


def test_losses_may_be_divided_by_what_all_ranks_have() -> None:
    def work(transport: InProcessTransport) -> Any:
        with rank_of(transport):
            weights = tf.get_variable("weights", initializer=[1.0, 1.0])
            samples = tf.fill([2], transport.rank + 1.0)
            count = transport.all_reduce(tf.cast(tf.size(samples), tf.float32), "sum", "n")
            loss = tf.reduce_sum(weights * samples / count)
            train = tf.train.GradientDescentOptimizer(4.0).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                return session.run(weights).tolist()

    assert run_ranks(RANKS, work, 60) == [[1.0 - 1.5] * 2] * RANKS


@pytest.mark.parametrize("minimize", [minimized, clipped, by_hand])
def test_sums_of_sharded_tables_become_averages_once(minimize: Minimize) -> None:
    def work(transport: InProcessTransport) -> Any:
        with rank_of(transport):
            table = sok.Variable(np.zeros([2, 1], np.float32), name="table")
            ids = tf.SparseTensor([[0, 0]], tf.constant([transport.rank], tf.int64), [1, 1])
            loss = 0.1 * tf.reduce_sum(sok.lookup_sparse(table, ids, combiners=["sum"])[0])
            train = minimize(tf.train.GradientDescentOptimizer(1.0), loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                return session.run(table)

    for part in run_ranks(RANKS, work, 60):
        np.testing.assert_allclose(part, [[-0.05]], rtol=1e-6)


@pytest.mark.parametrize("minimize", [minimized, clipped])
def test_an_optimizer_of_distributed_embeddings_averages_once_in_a_scope(
    minimize: Minimize,
) -> None:
    def work(transport: InProcessTransport) -> Any:
        with rank_of(transport):
            table = sok.Variable(np.zeros([2, 1], np.float32), name="table")
            weights = tf.get_variable("weights", initializer=[0.0])
            ids = tf.SparseTensor([[0, 0]], tf.constant([transport.rank], tf.int64), [1, 1])
            pooled = sok.lookup_sparse(table, ids, combiners=["sum"])[0]
            loss = 0.04 * tf.reduce_sum(pooled) + 0.02 * (1 + transport.rank) * weights[0]
            optimizer = de.DistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
            train = minimize(optimizer, loss)
            types = [one.type for one in tf.get_default_graph().get_operations()]
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(train)
                return session.run([table, weights]), types.count("ExchangeAllToAll")

    for (part, weights), messages in run_ranks(RANKS, work, 60):
        np.testing.assert_allclose(part, [[-0.02]], rtol=1e-6)
        np.testing.assert_allclose(weights, [-0.03], rtol=1e-6)
        assert messages == 4  # ids, rows, their gradients; the gradient of weights


def test_outside_of_scopes_optimizers_are_tensorflows() -> None:
    stock = tf.train.Optimizer.compute_gradients, tf.train.Optimizer.apply_gradients
    with communicating_through(OneRank()), data_parallel(), data_parallel():
        assert tf.train.Optimizer.apply_gradients is not stock[1]
    assert (tf.train.Optimizer.compute_gradients, tf.train.Optimizer.apply_gradients) == stock


def test_rank_0_restores_and_writes(tmp_path: Path) -> None:
    def work(transport: InProcessTransport) -> List[Any]:
        with rank_of(transport):
            weights = tf.get_variable("weights", initializer=1.0 + transport.rank)
            step = tf.train.get_or_create_global_step()
            optimizer = tf.train.GradientDescentOptimizer(1.0)
            train = optimizer.minimize(weights * 1.0, step)
            folder = str(tmp_path / str(transport.rank))
            with graph_opt.train.MonitoredTrainingSession(checkpoint_dir=folder) as session:
                for _ in range(3):
                    session.run(train)
                return session.run([step, weights])

    assert run_ranks(RANKS, work, 60) == [[3, -2.0]] * RANKS
    assert run_ranks(RANKS, work, 60) == [[6, -5.0]] * RANKS
    assert (tmp_path / "0" / "checkpoint").exists() and not (tmp_path / "1").exists()
