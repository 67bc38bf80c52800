"""No call waits longer for servers than `stall_seconds`, nor does the end of the process."""

from __future__ import annotations

import json
import os
import queue
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, NamedTuple

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.runtime.stage_waits import FOR_WORKERS, wait_of_step
from graph_opt.session import server_watch
from tests.session.parameter_servers import ParameterServer, free_addresses, parameter_servers
from tests.session.small_model import (
    BATCH,
    SmallModel,
    async_config,
    dataset,
    initialize,
    model_on,
    small_model,
)

pytestmark = pytest.mark.slow

STALL_SECONDS = 3
STALLED = r"/job:ps/task:0 has not answered for \d+ s \(stall_seconds is 3\)"
REPOSITORY = Path(__file__).resolve().parents[2]


class Cluster(NamedTuple):
    """A worker in this process, and its server in another."""

    target: str
    server: ParameterServer


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    ps, worker = free_addresses(2)
    tasks = {"ps": [ps], "worker": [worker]}
    with parameter_servers(tasks, has_ops=[False]) as servers:
        yield Cluster(tf.train.Server(tf.train.ClusterSpec(tasks), "worker", 0).target, servers[0])


def config(**options: bool) -> Any:
    result = async_config()
    optimizer_options = result.graph_options.optimizer_options
    optimizer_options.stall_seconds = STALL_SECONDS
    for name, value in options.items():
        setattr(optimizer_options, name, value)
    return result


def model_on_server() -> SmallModel:
    worker = "/job:worker/task:0"
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device=worker)):
        return small_model(learning_rate=0.1, epochs=1000)


def first_step(session: Any, model: SmallModel) -> Callable[[], Any]:
    return lambda: session.run(model.train_op)


def first_callable(session: Any, model: SmallModel) -> Callable[[], Any]:
    return lambda: session.make_callable(model.loss)


def devices(session: Any, model: SmallModel) -> Callable[[], Any]:
    return lambda: session.list_devices()


def callable_(session: Any, model: SmallModel) -> Callable[[], Any]:
    initialize(session, model)
    step = session.make_callable(model.train_op)
    step()
    return step


def partial_run(session: Any, model: SmallModel) -> Callable[[], Any]:
    factor = tf.placeholder(tf.float32, [])
    product = factor * tf.get_default_graph().get_tensor_by_name("dense:0")
    initialize(session, model)
    session.run(model.train_op)
    return lambda: session.partial_run_setup([product], [factor])


def weights_of_a_pipeline(session: Any, model: SmallModel) -> Callable[[], Any]:
    initialize(session, model)
    for _ in range(3):
        session.run(model.train_op)
    return lambda: session.run("dense:0")


def input_from_the_beginning(session: Any, model: SmallModel) -> Callable[[], Any]:
    initialize(session, model)
    session.run(model.train_op)

    def counted(stage: str, name: str) -> int:
        return int(graph_opt.metrics(session)[stage][name])

    while not counted("async_embedding", "pending_puts"):
        pass  # The buffer is not full yet, and lookups may be under way.
    begun = counted("async_embedding_io", "take_count")

    def begin_again() -> None:
        session.run(model.features["row"])  # That leaves room for a batch.
        while counted("async_embedding_io", "take_count") == begun:
            pass  # The lookups that the server will not answer have not begun.
        session.run(model.iterator.initializer)

    return begin_again


@pytest.mark.parametrize(
    "prepare",
    [
        first_step,
        first_callable,
        devices,
        callable_,
        partial_run,
        weights_of_a_pipeline,
        input_from_the_beginning,
    ],
)
def test_calls_end_when_a_server_is_stopped(
    prepare: Callable[[Any, SmallModel], Callable[[], Any]], cluster: Cluster
) -> None:
    model = model_on_server()
    pipelined = prepare is weights_of_a_pipeline
    session = graph_opt.Session(cluster.target, config=config(pipeline_dense=pipelined))
    call = prepare(session, model)
    with cluster.server.stopped():
        with pytest.raises(tf.errors.DeadlineExceededError, match=STALLED):
            call()
        session.close()


def test_a_task_that_the_graph_does_not_use_is_named_as_such() -> None:
    ps, worker, absent = free_addresses(3)
    tasks = {"ps": [ps], "worker": [worker, absent]}
    with parameter_servers(tasks, has_ops=[False]):
        target = tf.train.Server(tf.train.ClusterSpec(tasks), "worker", 0).target
        model = model_on_server()
        with graph_opt.Session(target, config=config()) as session:
            with pytest.raises(
                tf.errors.DeadlineExceededError, match="a task that the graph does not use has not"
            ):
                initialize(session, model)


class Heard:
    """A stderr that tells when a line has come."""

    def __init__(self, begin: str) -> None:
        self._begin = begin
        self.line = ""
        self.has_come = threading.Event()

    def write(self, text: str) -> None:
        if text.startswith(self._begin):
            self.line = text
            self.has_come.set()

    def flush(self) -> None:
        pass


def test_a_step_whose_input_stops_says_for_what_it_waits(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard("graph_opt: a call of the session has lasted")
    monkeypatch.setattr(sys, "stderr", heard)

    def stop_at_third_batch(rows: Any) -> Any:
        if rows[0] == 2 * BATCH:
            heard.has_come.wait(60)
        return rows

    def noted(features: Dict[str, Any]) -> Dict[str, Any]:
        row = tf.numpy_function(stop_at_third_batch, [features["row"]], tf.int64)
        row.set_shape([None])
        return dict(features, row=row)

    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        iterator = tf.data.make_initializable_iterator(dataset().map(noted))
        model = model_on(iterator.get_next(), learning_rate=0.1, iterator=iterator)
    with graph_opt.Session(cluster.target, config=config()) as session:
        initialize(session, model)
        for _ in range(3):
            session.run(model.train_op)
        assert session.run(model.global_step) == 3
    empty = r"\(0 of \d batches; its thread has been in a step for \d+ s{}\)"
    prefetch, reads = empty.format(""), empty.format(", which reads the input")
    waits = "answer: it waits for stage 'async_embedding' {}, which waits for stage '[a-z_]+' {}$"
    assert re.search(waits.format(prefetch, reads), heard.line.strip()), heard.line


def test_a_step_that_waits_for_other_workers_says_so_once(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: queue.SimpleQueue[str] = queue.SimpleQueue()

    def looked(*arguments: Any) -> str:
        waits = wait_of_step(*arguments)
        looks.put(waits)
        return waits

    monkeypatch.setattr(server_watch, "wait_of_step", looked)
    with tf.device(tf.train.replica_device_setter(ps_tasks=1, worker_device="/job:worker/task:0")):
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(tf.train.GradientDescentOptimizer(0.1), 2, 2)
        train_op = optimizer.minimize(tf.square(tf.get_variable("weight", [])), step)
        goes_on = optimizer.get_init_tokens_op(1)
    with graph_opt.Session(cluster.target, config=config()) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(optimizer.chief_init_op)
        for _ in range(2):  # A token lets a step go on that has no other worker.
            worker = threading.Thread(target=session.run, args=(train_op,))
            worker.start()
            assert looks.get(timeout=120) == FOR_WORKERS
            session.run(goes_on)
            worker.join()
    assert capsys.readouterr().err.count("tf.train.SyncReplicasOptimizer") == 1


SCRIPT = """
import json, sys
import graph_opt
from graph_opt.compat import tf
from tests.session import test_server_watch as test
tf.disable_v2_behavior()
server = tf.train.Server(tf.train.ClusterSpec(json.loads(sys.argv[1])), "worker")
model = test.model_on_server()
session = graph_opt.Session(server.target, config=test.config())
test.initialize(session, model)
session.run(model.train_op)
print("trains", flush=True)
sys.stdin.readline()
try:
    session.run(model.train_op)
except tf.errors.DeadlineExceededError:
    print("ended", flush=True)
"""


def started(tasks: Dict[str, Any]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, json.dumps(tasks)],
        env=dict(os.environ, PYTHONPATH=str(REPOSITORY)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_process_ends_with_a_session_that_nobody_closed() -> None:
    ps, worker = free_addresses(2)
    tasks = {"ps": [ps], "worker": [worker]}
    with parameter_servers(tasks, has_ops=[False]) as servers, started(tasks) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "trains\n"
            with servers[0].stopped():
                assert process.communicate("\n", timeout=120)[0] == "ended\n"
        finally:
            process.kill()
