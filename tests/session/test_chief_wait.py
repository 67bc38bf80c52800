"""Workers whose chief is gone, or takes its time: as TensorFlow's, but none waits forever."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Any, Dict, Iterator, List, NamedTuple

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.chief_wait import chief_of
from graph_opt.session.server_answers import NO_SUCH_TASK, silent_tasks
from tests.session.parameter_servers import ParameterServer, free_addresses, parameter_servers

WAIT_SECONDS = 200.0
WITHOUT_CHIEF = tf.ConfigProto(device_filters=["/job:ps", "/job:worker"])


class Cluster(NamedTuple):
    """A worker in this process; a chief that may start, and a server, in others."""

    addresses: Dict[str, List[str]]
    target: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    server, chief, worker = free_addresses(3)
    addresses = {"ps": [server], "chief": [chief], "worker": [worker]}
    with parameter_servers(addresses, has_ops=[False]):
        spec = tf.train.ClusterSpec(addresses)
        yield Cluster(addresses, tf.train.Server(spec, job_name="worker").target)


@pytest.fixture()
def step(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Any:
    """What a worker trains: each step adds 1 to a variable on the server, not initialized yet."""
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster.addresses}))
    setter = tf.train.replica_device_setter(1, worker_device="/job:worker/task:0")
    with tf.container(request.node.name.replace("_", "")), tf.device(setter):
        count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
        tf.train.get_or_create_global_step()
        return tf.assign_add(count, 1.0)


def worker(target: str, stall_seconds: int = 0, **arguments: Any) -> Any:
    config = graph_opt.ConfigProto()
    optimizer = config.graph_options.optimizer_options
    optimizer.do_group_embedding, optimizer.stall_seconds = True, stall_seconds
    return graph_opt.train.MonitoredTrainingSession(
        target, is_chief=False, config=config, **arguments
    )


@pytest.mark.slow
def test_a_chief_that_is_gone_is_not_waited_for_longer_than_stall_seconds(
    cluster: Cluster, step: Any
) -> None:
    message = r"/job:chief/task:0, the chief, has not answered for \d+ s \(stall_seconds is 2\)"
    with pytest.raises(tf.errors.DeadlineExceededError, match=message):
        with worker(cluster.target, stall_seconds=2) as session:
            session.run(step)


@pytest.mark.slow
def test_a_chief_may_be_the_first_worker_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """As scripts of DeepRec's model zoo have it, while TF_CONFIG has a chief."""
    server, chief, other = free_addresses(3)
    given = {"ps": [server], "chief": [chief], "worker": [other]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": given}))
    made = {"ps": [server], "worker": [chief, other]}
    with parameter_servers(made, has_ops=[False]):
        target = tf.train.Server(tf.train.ClusterSpec(made), "worker", 1).target
        assert silent_tasks(target, ["/job:chief/task:0", "/job:ps/task:0"], WAIT_SECONDS) == {
            "/job:chief/task:0": NO_SUCH_TASK
        }
        with tf.device(tf.train.replica_device_setter(1, worker_device="/job:worker/task:1")):
            count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
            tf.train.get_or_create_global_step()
            step = tf.assign_add(count, 1.0)
        message = r"/job:worker/task:0, the chief, has not answered for \d+ s"
        with pytest.raises(tf.errors.DeadlineExceededError, match=message):
            with worker(target, stall_seconds=2) as session:
                session.run(step)


@pytest.mark.slow
def test_no_worker_waits_longer_than_its_script_says(cluster: Cluster, step: Any) -> None:
    # TensorFlow's own worker would wait for a connection to the chief, forever.
    with pytest.raises(tf.errors.DeadlineExceededError, match="not ready after waiting 3 secs"):
        with worker(cluster.target, max_wait_secs=3) as session:
            session.run(step)


@pytest.mark.slow
def test_a_worker_goes_on_where_a_chief_that_has_ended_left_off(
    cluster: Cluster, step: Any
) -> None:
    with tf.Session(cluster.target, config=WITHOUT_CHIEF) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(step) == 1
    with worker(cluster.target, stall_seconds=2) as session:
        assert session.run(step) == 2


@pytest.mark.slow
def test_a_chief_that_answers_may_take_longer_than_stall_seconds(
    cluster: Cluster, step: Any
) -> None:
    looks = threading.Semaphore(0)

    def looked(names: Any) -> Any:
        looks.release()
        return names

    with tf.device("/job:worker/task:0"):
        missing = tf.numpy_function(looked, [tf.report_uninitialized_variables()], tf.string)
    scaffold = tf.train.Scaffold(ready_op=missing, ready_for_local_init_op=missing)
    initialize = tf.global_variables_initializer()
    graph = tf.get_default_graph()

    def initialize_late() -> None:
        for _ in range(4):  # Each two seconds after the last.
            assert looks.acquire(timeout=WAIT_SECONDS)
        with tf.Session(cluster.target, graph=graph, config=WITHOUT_CHIEF) as session:
            session.run(initialize)

    with contextlib.ExitStack() as stack:
        chief = ParameterServer(cluster.addresses, job="chief")
        stack.callback(chief.kill)
        chief.wait_until_ready()
        thread = threading.Thread(target=initialize_late)
        thread.start()
        stack.callback(thread.join)
        with worker(cluster.target, stall_seconds=1, scaffold=scaffold) as session:
            assert session.run(step) == 1


@pytest.mark.parametrize(
    "environment, chief",
    [
        ('{"cluster": {"chief": ["a:1"], "worker": ["b:1"], "ps": ["c:1"]}}', "/job:chief/task:0"),
        ('{"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}}', "/job:worker/task:0"),
        ('{"session_master": "grpc://a:1"}', None),
        ("[]", None),
        ("not json", None),
    ],
)
def test_the_chief_is_the_one_that_estimators_take(environment: str, chief: Any) -> None:
    assert chief_of({"TF_CONFIG": environment}) == chief
