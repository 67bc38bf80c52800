"""Sessions on servers: one in this process, and a parameter server in another."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Callable, Iterator, List

import numpy as np
import pytest

import graph_opt
from graph_opt.compat import tf
from tests.quick_cases import slow_but
from tests.session.parameter_servers import free_addresses, parameter_servers
from tests.session.small_model import (
    SmallModel,
    async_config,
    report_on,
    row_batches,
    run_to_end,
    scaffold_of,
    small_model,
    stock_losses,
)


@pytest.fixture(autouse=True)
def no_threads_left(threads_left_behind: Callable[[], List[str]]) -> Callable[[], List[str]]:
    return threads_left_behind


@pytest.fixture(scope="module")
def local_server() -> Any:
    return tf.train.Server.create_local_server()


@pytest.fixture(scope="module")
def workers() -> Iterator[List[Any]]:
    """Two workers in this process with a stock TensorFlow parameter server in another."""
    ps, *worker_addresses = free_addresses(3)
    cluster = {"ps": [ps], "worker": worker_addresses}
    with parameter_servers(cluster, has_ops=[False]):
        spec = tf.train.ClusterSpec(cluster)
        yield [tf.train.Server(spec, job_name="worker", task_index=task) for task in (0, 1)]


def worker_device(task: int) -> Any:
    return tf.train.replica_device_setter(
        ps_tasks=1, worker_device="/job:worker/task:{}".format(task)
    )


@pytest.mark.parametrize("threads", slow_but([1, 4], 4))
def test_a_session_on_a_server_gives_the_losses_of_a_stock_session(
    threads: int, local_server: Any
) -> None:
    model = small_model()
    with graph_opt.Session(local_server.target, config=async_config(threads)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(model.iterator.initializer)
            losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
            np.testing.assert_array_equal(losses, stock_losses())


def test_a_second_session_on_a_server_starts_with_empty_buffers(local_server: Any) -> None:
    model = small_model()
    for _ in range(2):
        with graph_opt.Session(local_server.target, config=async_config()) as session:
            session.run([tf.global_variables_initializer(), model.iterator.initializer])
            assert list(session.run(model.features["row"])) == row_batches()[0]


def test_thread_pools_are_only_for_in_process_sessions(local_server: Any) -> None:
    config = async_config()
    config.session_stage_subgraph_thread_pool.add(inter_op_threads_num=2)
    options = config.graph_options.optimizer_options.async_embedding_options
    options.use_stage_subgraph_thread_pool = True
    with graph_opt.Session(local_server.target, config=config) as session:
        model = small_model()
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        assert len(run_to_end(session, model.loss)) == len(row_batches())


def test_tables_on_a_parameter_server_give_the_same_losses(workers: List[Any]) -> None:
    with tf.device(worker_device(0)):
        model = small_model()
    assert "ps" in model.loss.graph.get_operation_by_name("users").device
    with graph_opt.Session(workers[0].target, config=async_config(2)) as session:
        session.run([tf.global_variables_initializer(), model.iterator.initializer])
        losses = [loss for loss, _ in run_to_end(session, [model.loss, model.train_op])]
        assert len(report_on(session.graph).moved) == 2
    np.testing.assert_array_equal(losses, stock_losses())


def trained_by(worker: Any, task: int) -> SmallModel:
    """The model of one worker, in the default graph."""
    with tf.device(worker_device(task)):
        return small_model(learning_rate=0.1, epochs=2)


@pytest.mark.parametrize("by_creator", slow_but([True, False], True))
def test_chief_and_worker_train_one_model(
    by_creator: bool, workers: List[Any], tmp_path: Path
) -> None:
    with tf.Graph().as_default():
        chief_model = trained_by(workers[0], 0)
        chief = graph_opt.train.MonitoredTrainingSession(
            master=workers[0].target,
            config=async_config(),
            scaffold=scaffold_of(chief_model),
            checkpoint_dir=str(tmp_path),
        )
        rows = [list(chief.run(chief_model.features["row"])) for _ in range(2)]
        with tf.Graph().as_default():
            model = trained_by(workers[1], 1)
            arguments = dict(
                master=workers[1].target, config=async_config(), scaffold=scaffold_of(model)
            )
            if by_creator:
                creator = graph_opt.train.WorkerSessionCreator(**arguments)
                worker = graph_opt.train.MonitoredSession(creator)
            else:
                worker = graph_opt.train.MonitoredTrainingSession(is_chief=False, **arguments)
            assert report_on(model.loss.graph).stages != ()
            before = worker.run(model.global_step)
            rows += [list(worker.run(model.features["row"])) for _ in range(2)]
            worker.run(model.train_op)
            chief.run(chief_model.train_op)
            assert worker.run(model.global_step) == before + 2
            worker.close()
        chief.close()
    tf.summary.FileWriterCache.clear()
    assert rows == row_batches()[:2] * 2


class LastRows(tf.train.SessionRunHook):
    """Collects the rows of each step that was completed."""

    def __init__(self, row: Any) -> None:
        self.rows: List[List[int]] = []
        self._row = row

    def before_run(self, run_context: Any) -> Any:
        return tf.train.SessionRunArgs(self._row)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.rows.append(list(run_values.results))


@pytest.fixture
def lost_and_found() -> Iterator[Any]:
    """A worker, and a function that kills its parameter server and starts another in its place."""
    ps, worker = free_addresses(2)
    cluster = {"ps": [ps], "worker": [worker]}
    with contextlib.ExitStack() as servers:
        servers.enter_context(parameter_servers(cluster, has_ops=[False]))

        def replace() -> None:
            servers.close()
            servers.enter_context(parameter_servers(cluster, has_ops=[False]))

        spec = tf.train.ClusterSpec(cluster)
        yield tf.train.Server(spec, job_name="worker", task_index=0), replace
    tf.summary.FileWriterCache.clear()


@pytest.mark.slow
def test_training_continues_when_a_lost_parameter_server_comes_back(
    lost_and_found: Any, tmp_path: Path
) -> None:
    server, replace_parameter_server = lost_and_found
    with tf.device(worker_device(0)):
        model = small_model(learning_rate=0.1, epochs=3)
    hook = LastRows(model.features["row"])
    with graph_opt.train.MonitoredTrainingSession(
        master=server.target,
        config=async_config(threads=2),
        scaffold=scaffold_of(model),
        checkpoint_dir=str(tmp_path),
        save_checkpoint_steps=1,
        hooks=[hook],
    ) as session:
        for _ in range(4):
            session.run(model.train_op)
        replace_parameter_server()
        while not session.should_stop():
            session.run(model.train_op)
            step = session.run(model.global_step)
    assert hook.rows[:4] == row_batches()[:4]
    assert step > 4
