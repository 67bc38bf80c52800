"""Parameter servers in separate processes, for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import Any, Callable, Dict, Iterator, List, Sequence, Union

import graph_opt
from graph_opt.compat import tf
from tests.processes import kill, pipe, start_process

START_SECONDS = 300
Loads = Union[bool, Callable[[], object]]
"""Whether a server's process loads graph_opt's ops, or what it does in their place."""

_reserved: List[socket.socket] = []


def free_addresses(count: int) -> List[str]:
    """Addresses chosen by the operating system and reserved while this process lives.

    The ports are bound but not listened on; since gRPC binds with SO_REUSEADDR, a server can still
    use them.
    """
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        each.bind(("localhost", 0))
    _reserved.extend(sockets)
    return ["localhost:{}".format(each.getsockname()[1]) for each in sockets]


class ParameterServer:
    """A task in a separate process, which a test may kill.

    Args:
      cluster: Addresses by job.
      task: Which of them it is.
      has_ops: Whether it loads graph_opt's ops, or is stock TensorFlow; or what it loads instead.
      job: Its job.
    """

    def __init__(
        self,
        cluster: Dict[str, List[str]],
        task: int = 0,
        has_ops: Loads = False,
        job: str = "ps",
    ) -> None:
        self._messages, theirs = pipe()
        self._process = start_process(_serve, cluster, job, task, has_ops, theirs)
        theirs.close()

    def wait_until_ready(self) -> None:
        """Waits until it serves."""
        assert self._messages.poll(START_SECONDS), "a parameter server that does not start"
        assert self._messages.recv() == "ready"

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Within, it answers nobody, and no call to it fails."""
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process abruptly, as if its machine were lost."""
        kill(self._process)
        self._messages.close()


def _serve(
    cluster: Dict[str, List[str]], job: str, task: int, has_ops: Loads, messages: Any
) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    if callable(has_ops):
        has_ops()
    elif has_ops:
        graph_opt.load_op_library()
    server = tf.train.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=task)
    messages.send("ready")
    with contextlib.suppress(EOFError):
        messages.recv()  # until the test is gone
    del server
    os._exit(0)  # TensorFlow's server has no clean shutdown


@contextlib.contextmanager
def parameter_servers(
    cluster: Dict[str, List[str]], has_ops: Sequence[Loads]
) -> Iterator[List[ParameterServer]]:
    """Starts the first tasks of job ps, waits until they serve, and ends them afterwards.

    Args:
      cluster: Addresses by job.
      has_ops: For each task whether it loads graph_opt's ops, or what it loads in their place.
    """
    with contextlib.ExitStack() as stack:
        servers = []
        for task, loads in enumerate(has_ops):
            servers.append(ParameterServer(cluster, task, loads))
            stack.callback(servers[-1].kill)
        for server in servers:
            server.wait_until_ready()
        yield servers


@contextlib.contextmanager
def cluster(servers: int, workers: int = 1) -> Iterator[List[str]]:
    """The targets of workers with servers in processes of their own."""
    addresses = free_addresses(servers + workers)
    tasks = {"ps": addresses[:servers], "worker": addresses[servers:]}
    with parameter_servers(tasks, has_ops=[True] * servers):
        spec = tf.train.ClusterSpec(tasks)
        yield [tf.train.Server(spec, "worker", task).target for task in range(workers)]


@contextlib.contextmanager
def stock_servers(count: int) -> Iterator[str]:
    """The target of a worker whose parameter servers are stock TensorFlow, in other processes."""
    *servers, worker = free_addresses(count + 1)
    cluster = {"ps": servers, "worker": [worker]}
    with parameter_servers(cluster, has_ops=[False] * count):
        yield tf.train.Server(tf.train.ClusterSpec(cluster), job_name="worker").target
