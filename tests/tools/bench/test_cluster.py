"""Parameter-server processes: where variables live, how far away, and how everything ends."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Iterator, List

import pytest
import tensorflow.compat.v1 as tf

from tools.bench.cluster.loopback import Cluster, start_cluster, start_clusters
from tools.bench.cluster.processes import ProcessEnded
from tools.bench.training.sessions import ASYNC, STOCK, SessionOptions, open_training_session

REPOSITORY = Path(__file__).resolve().parents[3]
WORKER = "/job:worker/task:0"
DELAY_MS = 25.0
OWNER = """
from tools.bench.cluster.loopback import start_cluster
with start_cluster(servers=1, delay_ms=1) as cluster:
    print(*[child.pid for child in cluster.servers + cluster.proxies], flush=True)
    input()
"""


def is_running(pid: int) -> bool:
    """Whether a process lives; one that waits for its parent to ask how it ended does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_until_gone(pids: List[int], seconds: float = 120.0) -> List[int]:
    """The processes that still run after the time."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return [pid for pid in pids if is_running(pid)]


def commands_of_children() -> List[str]:
    """Command lines of this process's children."""
    listed = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    )
    return listed.stdout.splitlines()


def embedding_model(cluster: Cluster) -> tf.Operation:
    """A training step with one lookup, its table where the cluster keeps variables."""
    with tf.device(cluster.device):
        batch = tf.data.Dataset.from_tensors([1, 2, 3]).repeat()
        ids = tf.data.make_one_shot_iterator(batch).get_next()
        table = tf.get_variable("table", [10, 4])
        loss = tf.reduce_sum(tf.nn.embedding_lookup(table, ids) ** 2)
        step = tf.train.get_or_create_global_step()
        return tf.train.GradientDescentOptimizer(0.1).minimize(loss, step)


def test_without_servers_everything_is_in_this_process() -> None:
    with start_cluster(servers=0) as cluster, tf.device(cluster.device):
        assert (cluster.master, cluster.servers) == ("", ())
        assert tf.get_variable("table", [2]).device == ""
        assert set(cluster.cpu_seconds()) == {"worker", "ps", "proxy"}


def test_a_delay_needs_a_server_to_be_between() -> None:
    with pytest.raises(ValueError, match="pass --ps as well"):
        with start_cluster(servers=0, delay_ms=1.0):
            pass


@pytest.mark.slow
def test_each_of_several_clusters_has_variables_of_its_own() -> None:
    with start_clusters(2, servers=1) as started, contextlib.ExitStack() as stack:
        clusters, reads = list(started), []
        for number, cluster in enumerate(clusters):
            with tf.Graph().as_default() as graph, tf.device(cluster.device):
                value = tf.get_variable("value", initializer=float(number))
            session = stack.enter_context(tf.Session(cluster.master, graph=graph))
            session.run(value.initializer)
            reads.append(functools.partial(session.run, value))
        assert [read() for read in reads] == [0.0, 1.0]
    assert all(child.has_ended() for cluster in clusters for child in cluster.servers)


@pytest.mark.slow
def test_a_cluster_that_nobody_has_taken_ends_with_the_others() -> None:
    with start_clusters(2, servers=1) as started:
        next(started)
    assert not [name for name in commands_of_children() if "parameter_server" in name]


def test_what_keeps_a_cluster_from_starting_is_told_when_it_is_taken() -> None:
    with pytest.raises(ValueError, match="pass --ps as well"):
        with start_clusters(2, servers=0, delay_ms=1.0) as clusters:
            list(clusters)


@pytest.fixture(scope="module")
def distant() -> Iterator[Cluster]:
    """Two servers, `DELAY_MS` away."""
    with start_cluster(servers=2, delay_ms=DELAY_MS) as cluster:
        yield cluster
    assert all(child.has_ended() for child in cluster.servers + cluster.proxies)


def test_variables_are_spread_over_the_servers_and_the_rest_is_on_the_worker(
    distant: Cluster,
) -> None:
    with tf.device(distant.device):
        tables = [tf.get_variable(f"table_{number}", [3]) for number in range(2)]
        total = tf.add_n([tf.reduce_sum(table) for table in tables])
    assert [table.device for table in tables] == ["/job:ps/task:0", "/job:ps/task:1"]
    assert total.device == WORKER
    with tf.Session(distant.master) as session:
        session.run([table.initializer for table in tables])
        session.run(total)
    assert distant.cpu_seconds()["ps"] > 0


def test_both_directions_between_worker_and_server_are_delayed(distant: Cluster) -> None:
    with tf.device(distant.device):
        table = tf.get_variable("table", [10, 4])
        ids = tf.placeholder(tf.int32, [2])
    with tf.device("/job:ps/task:0"):
        rows = tf.gather(table, ids)
    with tf.device(WORKER):
        result = tf.reduce_sum(rows)
    with tf.Session(distant.master) as session:
        session.run(table.initializer)
        times = []
        for _ in range(7):
            start = time.perf_counter()
            session.run(result, {ids: [1, 2]})
            times.append(time.perf_counter() - start)
    # The worker asks the server for rows, the server asks the worker for ids, and both answer:
    # four times the delay. With the worker reached directly it would be twice.
    assert statistics.median(times) >= 3.9 * DELAY_MS / 1000


@pytest.mark.slow
def test_processes_end_when_their_owner_is_killed() -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=str(REPOSITORY),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        universal_newlines=True,
    )
    assert owner.stdin is not None and owner.stdout is not None
    with owner.stdin, owner.stdout:
        pids = [int(text) for text in owner.stdout.readline().split()]
        assert len(pids) == 2 and all(map(is_running, pids))
        owner.kill()
        owner.wait()
        assert wait_until_gone(pids) == []


@pytest.mark.slow
@pytest.mark.parametrize("mode", [STOCK, ASYNC])
def test_the_death_of_a_server_ends_training_with_its_name_and_all_processes(mode: str) -> None:
    with pytest.raises(ProcessEnded, match=r"parameter server 0 .* ended with exit status -9"):
        with start_cluster(servers=1, delay_ms=1.0) as cluster:
            train_op = embedding_model(cluster)
            with open_training_session(SessionOptions(mode=mode), cluster) as session:
                session.run(train_op)
                start = time.monotonic()
                os.kill(cluster.servers[0].pid, signal.SIGKILL)
                while time.monotonic() < start + 300:
                    session.run(train_op)
    assert all(child.has_ended() for child in cluster.servers + cluster.proxies)
