"""Which servers have graph_opt's ops: processes with them, without them, and missing ones."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

import graph_opt
from graph_opt.compat import tf
from graph_opt.session.server_ops import tasks_without_ops
from tests.session.parameter_servers import free_addresses, parameter_servers

WITH, WITHOUT, DOWN = ("/job:ps/replica:0/task:{}".format(task) for task in range(3))


@pytest.fixture(scope="module")
def worker() -> Iterator[Any]:
    """A worker with three parameter servers: with the ops, without them, and down."""
    *ps, address = free_addresses(4)
    cluster = {"ps": ps, "worker": [address]}
    with parameter_servers(cluster, has_ops=[True, False]):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)


def test_a_server_without_the_ops_is_found(worker: Any) -> None:
    assert tasks_without_ops(worker.target, [WITH, WITHOUT]) == {WITHOUT}


def test_servers_with_the_ops_pass(worker: Any) -> None:
    own = "/job:worker/replica:0/task:0"
    assert tasks_without_ops(worker.target, [WITH, own, WITH]) == frozenset()
    assert tasks_without_ops(worker.target, []) == frozenset()


def test_a_session_that_is_used_later_is_not_disturbed(worker: Any) -> None:
    with tf.device(WITH):
        variable = tf.get_variable("kept", initializer=3.0)
    options = tf.ConfigProto(device_filters=["/job:ps/task:0", "/job:worker"])
    with tf.Session(worker.target, config=options) as session:
        session.run(variable.initializer)
        assert tasks_without_ops(worker.target, [WITH, WITHOUT]) == {WITHOUT}
        assert session.run(variable) == 3.0


def test_a_server_that_is_down_is_named(worker: Any) -> None:
    with pytest.raises(tf.errors.UnavailableError, match=r"task:2: no answer within 1\.5 s"):
        tasks_without_ops(worker.target, [WITH, DOWN, WITHOUT], timeout_seconds=1.5)


def test_a_target_that_is_not_a_cluster_gives_tensorflows_error() -> None:
    server = tf.train.Server.create_local_server()
    with pytest.raises(tf.errors.OpError, match="ps"):
        tasks_without_ops(server.target, [WITH], timeout_seconds=20)


def test_the_public_name_loads_the_library() -> None:
    assert hasattr(graph_opt.load_op_library(), "group_embedding_gather")
