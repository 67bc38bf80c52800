"""Lookups of tables on servers that run ahead with exact rows: trainings are the fused ones."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.optimizer_models import STOCK
from tests.session import test_exact_rows as exact_rows
from tests.session.parameter_servers import ParameterServer, cluster, free_addresses
from tests.session.test_exact_rows import assert_same, config, every_kind, moved, one_table, train

pytestmark = pytest.mark.slow

SIZES = [(1, 1), (1, 4), (4, 1), (4, 4)]  # threads and capacity
PROMISE = (
    "no update of this worker is missed; other workers' updates are seen as a synchronous worker "
    "would see them"
)


@pytest.fixture(scope="module", params=[1, 2])
def placed(request: Any) -> Iterator[Dict[str, Any]]:
    """A worker's target, and how many servers it has."""
    with cluster(request.param) as (target,):
        yield {"target": target, "servers": request.param}


@pytest.fixture(scope="module")
def target() -> Iterator[str]:
    """The target of a worker with one server.

    TensorFlow may hang where a step fails at once on the worker and needs several servers.
    """
    with cluster(1) as (one,):
        yield one


@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "ftrl", "adam"])
def test_optimizers_threads_and_capacities(
    placed: Dict[str, Any], optimizer: str, resource: bool
) -> None:
    lookups = every_kind(resource)
    fused = train(lookups, config(), optimizer, steps=200, **placed)
    for threads, capacity in SIZES:
        exact = train(lookups, config(threads, capacity), optimizer, steps=200, **placed)
        assert moved(exact) == 5
        assert_same(exact, fused)
    assert PROMISE in str(exact.report)


def test_without_exact_rows_are_old(placed: Dict[str, Any]) -> None:
    fused = train(every_kind(False), config(), steps=60, **placed)
    options = config(4, 4, exact=False)
    # A stage that yields may never get ahead where others keep the cores busy.
    options.graph_options.optimizer_options.async_embedding_options.prefetch_priority = 0
    assert train(every_kind(False), options, steps=60, **placed).losses != fused.losses


def _model(rate: float = 0.1, task: int = 0, servers: int = 1) -> Any:
    """(loss, train op, table) of a worker that looks up the same rows in each step."""
    setter = tf.train.replica_device_setter(
        servers, worker_device="/job:worker/task:{}".format(task)
    )
    with tf.device(setter):
        features = tf.data.Dataset.from_tensors(np.arange(8, dtype=np.int64)[:, None]).repeat()
        ids = tf.data.make_one_shot_iterator(features).get_next()
        rows = tf.get_variable("rows", [8, 1], initializer=tf.zeros_initializer())
        bags = tf.nn.safe_embedding_lookup_sparse(rows, exact_rows.sparse({"bags": ids}))
        # Its gradient is 1 for each row, and needs the lookup.
        loss = tf.reduce_sum(bags) + 0.0 * tf.reduce_sum(tf.square(bags))
        step = tf.train.GradientDescentOptimizer(rate).minimize(
            loss, tf.train.get_or_create_global_step()
        )
    return loss, step, rows


def test_workers_miss_no_update_of_their_own() -> None:
    with cluster(1, workers=2) as targets, contextlib.ExitStack() as stack:
        sessions = []
        for task, target in enumerate(targets):
            with tf.Graph().as_default():
                loss, step, _ = _model(rate=1.0, task=task)
                sessions.append(stack.enter_context(graph_opt.Session(target, config=config(2, 3))))
                if task == 0:
                    sessions[0].run(tf.global_variables_initializer())
                sessions[task].fetches = (loss, step)
        own = [0, 0]
        for turn in [0, 0, 1, 0, 1, 1, 1, 0, 0, 1]:
            loss, _ = sessions[turn].run(sessions[turn].fetches)
            assert -8 * sum(own) <= loss <= -8 * own[turn]
            own[turn] += 1


def _run_on(target: str, options: Any, folder: Path) -> Tuple[exact_rows.Run, Dict[str, int]]:
    """Trains on whatever fails, with tables written in between; and metrics of the last stage."""
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.Graph().as_default(), tf.device(setter), tf.container(folder.name):
        tf.set_random_seed(1)
        inputs = exact_rows.batches(30)
        outputs = tf.concat(every_kind(False)(inputs), 1)
        loss = tf.reduce_mean(tf.square(outputs - inputs["label"]))
        step = tf.train.get_or_create_global_step()
        train_op = STOCK["adagrad"]().minimize(loss, step)
        # The server fails steps as it tells the worker what they wrote, which may not arrive.
        with tf.device("/job:ps/task:0"), tf.control_dependencies([train_op]):
            cycle = tf.cast(tf.floormod(step.read_value(), 5), tf.float32)
            checked = tf.debugging.check_numerics(loss / cycle, "each fifth loss")
        shared, saver = tf.trainable_variables()[0], tf.train.Saver()
        ones = np.ones(shared.shape.as_list(), np.float32)
        with tf.device("/job:ps/task:0"), tf.control_dependencies([tf.assign(shared, -ones)]):
            assigned = tf.debugging.check_numerics(np.inf, "not assigned well")
        between: Dict[int, Callable[[Any], Any]] = {
            3: lambda session: saver.save(session, str(folder / "model")),
            8: lambda session: saver.restore(session, str(folder / "model")),
            13: lambda session: shared.load(ones, session),
            17: lambda session: session.run(tf.assign(shared, 2 * ones)),
            21: lambda session: session.run(assigned),
        }
        losses: List[float] = []
        with graph_opt.Session(target, config=options) as session:
            session.run(tf.global_variables_initializer())
            for turn in range(30):
                try:
                    losses.append(session.run(checked))
                    between.get(turn, lambda session: None)(session)
                except tf.errors.InvalidArgumentError:
                    losses.append(-1)
            values = session.run({each.op.name: each for each in tf.global_variables()})
            stages = list(graph_opt.metrics(session).values())
            run = exact_rows.Run(losses, values, graph_opt.report())
            return run, stages[-1] if stages else {}


def test_rows_are_read_again_where_a_step_failed_or_something_assigned(
    target: str, tmp_path: Path
) -> None:
    def run_on(name: str, options: Any) -> Tuple[exact_rows.Run, Dict[str, int]]:
        (tmp_path / name).mkdir()
        return _run_on(target, options, tmp_path / name)

    fused, _ = run_on("fused", config())
    assert fused.losses.count(-1) > 5
    for threads, capacity in SIZES:
        exact, stage = run_on("exact{}{}".format(threads, capacity), config(threads, capacity))
        assert moved(exact) == 5
        assert_same(exact, fused)
        assert stage["read_again"] >= 5
        told = re.search(
            r"rows of (\d+) batches were read again from servers: "
            r"(?:(\d+) after a step that failed, )?(\d+) after a table was assigned",
            str(exact.report),
        )
        assert told is not None
        batches, failed, assigned = (int(count or 0) for count in told.groups())
        assert batches == stage["read_again"] == failed + assigned
        assert assigned >= 4


@pytest.mark.parametrize("staleness", [0, 1])
def test_updates_stay_in_main_if_dense_ones_do_not(target: str, staleness: int) -> None:
    lookups = every_kind(False)
    options = config(2, 3)
    optimizer = options.graph_options.optimizer_options
    optimizer.pipeline_dense, optimizer.dense_staleness = True, staleness
    exact = train(lookups, options, target=target, servers=1)
    assert moved(exact) == 5
    assert len(exact.losses) == 12
    if staleness == 0:
        assert_same(exact, train(lookups, config(), target=target, servers=1))


def test_evaluation_takes_batches_in_between(placed: Dict[str, Any]) -> None:
    with tf.Graph().as_default():
        loss, step, rows = _model(servers=placed["servers"])
        with graph_opt.Session(placed["target"], config=config(2, 3)) as session:
            session.run(tf.global_variables_initializer())
            for turn in range(12):
                before = session.run(rows)
                value = session.run(loss if turn % 3 else [loss, step])
                np.testing.assert_allclose(np.ravel(value)[0] if turn % 3 == 0 else value,
                                           before.sum(), 1e-6)  # fmt: skip


def test_updates_that_a_step_may_skip(placed: Dict[str, Any]) -> None:
    def run(options: Any) -> List[float]:
        with tf.Graph().as_default():
            setter = tf.train.replica_device_setter(
                placed["servers"], worker_device="/job:worker/task:0"
            )
            with tf.device(setter):
                inputs = exact_rows.batches(12)
                loss = tf.reduce_mean(tf.square(one_table(False)(inputs)[0] - 1))
                count = tf.get_variable("count", [], tf.int32, tf.zeros_initializer())
                optimizer = STOCK["adagrad"]()
                gradients = optimizer.compute_gradients(loss)
                with tf.control_dependencies([tf.assign_add(count, 1)]):
                    step = tf.cond(
                        tf.equal(tf.math.floormod(count.read_value(), 3), 0),
                        lambda: optimizer.apply_gradients(gradients),
                        tf.no_op,
                    )
            with graph_opt.Session(placed["target"], config=options) as session:
                session.run(tf.global_variables_initializer())
                return [session.run([loss, step])[0] for _ in range(12)]

    fused = run(config())
    assert run(config(2, 3)) == fused


def test_a_lost_server_makes_a_monitored_session_recover() -> None:
    addresses = free_addresses(2)
    tasks = {"ps": addresses[:1], "worker": addresses[1:]}
    with contextlib.ExitStack() as stack:
        server = ParameterServer(tasks, has_ops=True)
        stack.callback(lambda: server.kill())
        server.wait_until_ready()
        target = tf.train.Server(tf.train.ClusterSpec(tasks), "worker", 0).target
        with tf.Graph().as_default():
            loss, step, _ = _model()
            with graph_opt.train.MonitoredTrainingSession(target, config=config(2, 3)) as session:
                for turn in range(30):
                    if turn == 10:
                        server.kill()
                        server = ParameterServer(tasks, has_ops=True)
                        server.wait_until_ready()
                    value, _ = session.run([loss, step])
                    updates = session.run(tf.train.get_global_step())
                    np.testing.assert_allclose(value, -0.8 * (updates - 1), rtol=1e-5)
                assert updates == 20
