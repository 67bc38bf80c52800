"""Clusters in which some sessions defer updates, and others leave them to TensorFlow or only read.

Processes without graph_opt are real ones, as are those that are killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import pytest

import graph_opt
from graph_opt.compat import tf
from tests.processes import kill, pipe, start_process
from tests.session.deferred_model import ModelOptions, assert_same
from tests.session.deferred_sessions import assert_deferred, fused_config
from tests.session.fed_worker import FedWorker, Opened, serve_fed_worker, stock_session
from tests.session.parameter_servers import START_SECONDS, free_addresses, parameter_servers

_ON_SERVER = "/job:ps/task:0"


def deferring(target: str, graph: Any) -> Any:
    return graph_opt.Session(target, graph, config=fused_config())


def lazy(target: str, graph: Any) -> Any:
    config = fused_config()
    config.graph_options.optimizer_options.group_embedding_options.adam = "lazy"
    return graph_opt.Session(target, graph, config=config)


class OtherWorker:
    """A `FedWorker` in another process: a task of the cluster, or without one a mere client."""

    def __init__(self, cluster: Dict[str, List[str]], task: Optional[int], opened: Opened) -> None:
        self._messages, theirs = pipe()
        self._process = start_process(serve_fed_worker, cluster, task, opened, theirs)
        assert self._answer() == "ready"

    def ask(self, name: str, *arguments: Any) -> Any:
        self._messages.send((name, arguments))
        return self._answer()

    def kill(self) -> None:
        kill(self._process)

    def _answer(self) -> Any:
        assert self._messages.poll(START_SECONDS), "a worker that does not answer"
        return self._messages.recv()


class Cluster:
    """A parameter server with our ops, this process as worker 0, and one without as worker 1."""

    def __init__(self) -> None:
        ps, *workers = free_addresses(3)
        self.addresses = {"ps": [ps], "worker": workers}
        spec = tf.train.ClusterSpec(self.addresses)
        self.server = tf.train.Server(spec, job_name="worker", task_index=0)
        self.stock = OtherWorker(self.addresses, 1, stock_session)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    with parameter_servers(made.addresses, has_ops=[True]):
        yield made
    made.stock.kill()


def train_in_turns(
    cluster: Cluster, opened: Opened, options: ModelOptions, folder: Path
) -> List[Any]:
    """A session that may defer updates, and in turns with it all others; what these see."""
    tf.Session.reset(cluster.server.target)
    other = cluster.stock.ask
    first = FedWorker(cluster.server.target, options, opened)
    rows = FedWorker(cluster.server.target, options, lazy)
    other("open", options)
    first.initialize()
    first.train(0, 1, 2)
    seen = [other("values")]
    first.train(3, 4, 5)
    other("train", 6, 7)
    first.train(8, 9)
    seen.append(other("scores", 0))
    first.train(10)
    seen.append(other("slot"))
    first.train(11, 12, 13)
    seen.append(other("saved", str(folder)))
    first.train(14, 15)
    other("write")
    first.train(16, 17)
    rows.train(18, 19)
    first.train(20, 21)
    seen.append(rows.scores(1))
    other("train", 22)
    first.train(23, 24, 25)
    seen.append(first.values())
    first.train(26)
    other("initialize")
    first.train(27, 28)
    seen.append(other("values"))
    if opened is deferring:
        assert_deferred(first.session.graph)
    for worker in (rows, first):
        worker.close()
    return seen


@pytest.mark.parametrize("use_resource", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_sessions_that_do_not_defer_see_what_they_see_with_tensorflow(
    cluster: Cluster, use_resource: bool, tmp_path: Path
) -> None:
    options = ModelOptions(use_resource=use_resource, device=_ON_SERVER)
    expected = train_in_turns(cluster, stock_session, options, tmp_path)
    assert_same(train_in_turns(cluster, deferring, options, tmp_path), expected)


@pytest.mark.slow
def test_a_killed_worker_leaves_nothing_undone(cluster: Cluster) -> None:
    options = ModelOptions(device=_ON_SERVER)
    seen: List[Any] = []
    for opened in (stock_session, deferring):
        tf.Session.reset(cluster.server.target)
        killed = OtherWorker(cluster.addresses, None, opened)
        killed.ask("open", options)
        killed.ask("initialize")
        killed.ask("train", 0, 1, 2, 3)
        killed.kill()
        cluster.stock.ask("open", options)
        seen.append([cluster.stock.ask("values")])
        cluster.stock.ask("train", 4)
        seen[-1].append(cluster.stock.ask("values"))
    assert_same(seen[1], seen[0])
