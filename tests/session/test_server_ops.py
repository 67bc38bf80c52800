"""Which servers have graph_opt's ops: with them, without, of another release, and missing ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import pytest

import graph_opt
from graph_opt.cli.release import RELEASE
from graph_opt.compat import tf
from graph_opt.session.server_ops import (
    NO_LIBRARY,
    OLDER_LIBRARY,
    differing_libraries,
    own_library,
)
from tests.conftest import MadeOnce
from tests.session import other_library
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
    assert differing_libraries(worker.target, [WITH, WITHOUT]) == {WITHOUT: NO_LIBRARY}


def test_servers_with_the_ops_pass(worker: Any) -> None:
    own = "/job:worker/replica:0/task:0"
    assert differing_libraries(worker.target, [WITH, own, WITH]) == {}
    assert differing_libraries(worker.target, []) == {}


def test_a_session_that_is_used_later_is_not_disturbed(worker: Any) -> None:
    with tf.device(WITH):
        variable = tf.get_variable("kept", initializer=3.0)
    options = tf.ConfigProto(device_filters=["/job:ps/task:0", "/job:worker"])
    with tf.Session(worker.target, config=options) as session:
        session.run(variable.initializer)
        assert differing_libraries(worker.target, [WITH, WITHOUT]) == {WITHOUT: NO_LIBRARY}
        assert session.run(variable) == 3.0


def test_a_server_that_is_down_is_named(worker: Any) -> None:
    with pytest.raises(tf.errors.UnavailableError, match=r"task:2: no answer within 1\.5 s"):
        differing_libraries(worker.target, [WITH, DOWN, WITHOUT], timeout_seconds=1.5)


@pytest.fixture(scope="module")
def other(compiled_once: MadeOnce) -> Path:
    return other_library.compiled_library(compiled_once)


@pytest.mark.slow
def test_servers_of_other_releases_are_told_apart_by_their_ops(other: Path) -> None:
    same = other_library.own_definitions()
    older = [op for op in same if op.name != "GraphOptLibrary"]
    changed = other_library.other_definitions()
    documented = other_library.own_definitions()
    documented[0].description = "Said otherwise."
    loaded = [other_library.loading(other, ops) for ops in (same, documented, changed, older)]
    *ps, address = free_addresses(5)
    cluster = {"ps": ps, "worker": [address]}
    tasks = ["/job:ps/replica:0/task:{}".format(task) for task in range(4)]
    with parameter_servers(cluster, has_ops=loaded):
        server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker", task_index=0)
        found = differing_libraries(server.target, tasks)
    assert list(found) == tasks[2:]
    assert found[tasks[2]].release == other_library.RELEASE
    assert found[tasks[3]] == OLDER_LIBRARY


def test_the_own_library_has_the_release_and_a_hash_of_all_ops() -> None:
    library = own_library()
    assert library.release == RELEASE
    bytes_of_ops = b""
    for op in other_library.own_definitions():
        for documented in (op, *op.input_arg, *op.output_arg, *op.attr):
            documented.ClearField("description")
        op.ClearField("summary")
        bytes_of_ops += op.SerializeToString()
    assert library.definitions == "{:016x}".format(fnv_1a(bytes_of_ops))


def fnv_1a(text: bytes) -> int:
    """The hash of that name, of 64 bits."""
    number = 14695981039346656037
    for byte in text:
        number = ((number ^ byte) * 1099511628211) % (1 << 64)
    return number


def test_a_target_that_is_not_a_cluster_gives_tensorflows_error() -> None:
    server = tf.train.Server.create_local_server()
    with pytest.raises(tf.errors.OpError, match="ps"):
        differing_libraries(server.target, [WITH], timeout_seconds=20)


def test_the_public_name_loads_the_library() -> None:
    assert hasattr(graph_opt.load_op_library(), "group_embedding_gather")
