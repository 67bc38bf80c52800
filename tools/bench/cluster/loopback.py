"""A small TF1 cluster on loopback: parameter servers in processes of their own, the worker here.

                     delay proxy (only with a delay)
                   ┌──────────────────────────────┐
    worker ───────►│ port a ──(D ms each way)──►  │──► ps 0
    (this process) │                              │    (child process)
    worker ◄───────│  ◄──(D ms each way)── port b │◄── ps 0
                   └──────────────────────────────┘

TensorFlow's servers call each other in both directions: the worker asks a parameter server for
rows, the parameter server asks the worker for ids and gradients. So every server is told the
proxy's port in place of each other server's own, and listens on its own real port.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Callable, Dict, Iterator, List, Sequence

import tensorflow.compat.v1 as tf

from tools.bench.cluster.processes import ChildProcess, own_cpu_seconds

PATIENCE_SECONDS = 3.0  # a failed call can be seen before the operating system reports the death


class Cluster:
    """Where variables live and which session to open; without servers: this process alone.

    Attributes:
      master: target of sessions ("" for an in-process session).
      servers: the parameter-server processes.
      proxy: the delay proxy's process, if there is one.
    """

    def __init__(
        self,
        master: str = "",
        servers: Sequence[ChildProcess] = (),
        proxies: Sequence[ChildProcess] = (),
    ) -> None:
        self.master = master
        self.servers = tuple(servers)
        self.proxies = tuple(proxies)

    @property
    def device(self) -> Callable[[tf.Operation], str]:
        """A `tf.device` argument: variables on the parameter servers, the rest on the worker."""
        if not self.servers:
            return lambda operation: ""
        return tf.train.replica_device_setter(
            ps_tasks=len(self.servers), worker_device="/job:worker/task:0"
        )

    def check(self, patience: float = 0.0) -> None:
        """Raises `processes.ProcessEnded` when a parameter server or the proxy is gone.

        Args:
          patience: seconds to wait for the news of a death.
        """
        children = self.servers + self.proxies
        for child in children:
            child.check(patience / len(children))

    def cpu_seconds(self) -> Dict[str, float]:
        """CPU time used so far, by role: worker (this process), ps, proxy."""
        return {
            "worker": own_cpu_seconds(),
            "ps": sum(child.cpu_seconds() for child in self.servers),
            "proxy": sum(child.cpu_seconds() for child in self.proxies),
        }


class GuardedScaffold(tf.train.Scaffold):
    """A Scaffold that refuses to recover a session whose parameter server is dead.

    A MonitoredSession answers a lost connection by making a new session, which waits for the
    parameter servers for ever. That is right where something restarts them; here nothing does.
    """

    def __init__(self, cluster: Cluster, **scaffold_arguments: object) -> None:
        super().__init__(**scaffold_arguments)
        self._cluster = cluster
        self._has_been_finalized = False

    def finalize(self) -> tf.train.Scaffold:
        """Entered before every session that is made, so also on recovery."""
        self._cluster.check(PATIENCE_SECONDS if self._has_been_finalized else 0.0)
        self._has_been_finalized = True
        return super().finalize()


@contextlib.contextmanager
def start_cluster(servers: int, delay_ms: float = 0.0) -> Iterator[Cluster]:
    """Starts parameter servers, the proxy if there is a delay, and this process's worker server.

    Args:
      servers: parameter-server processes; 0: no cluster, everything in this process.
      delay_ms: latency each way between worker and parameter servers, >= 0.

    Yields:
      The Cluster. Its processes end with the block, whatever ends it.

    Raises:
      processes.ProcessEnded: a process could not be started.

    Example:
      >>> with start_cluster(servers=1, delay_ms=1.0) as cluster:
      ...     with tf.device(cluster.device):
      ...         build_model()
      ...     session = tf.Session(cluster.master)
    """
    if servers < 0 or delay_ms < 0:
        raise ValueError(f"servers and delay must not be negative, got {servers}, {delay_ms} ms")
    if not servers:
        if delay_ms:
            raise ValueError("a delay needs a parameter server to be between: pass --ps as well")
        yield Cluster()
        return
    with contextlib.ExitStack() as stack:
        yield _started(stack, servers, delay_ms)


def _started(stack: contextlib.ExitStack, servers: int, delay_ms: float) -> Cluster:
    with contextlib.ExitStack() as reservations:
        ports = [reservations.enter_context(_reserved_port()) for _ in range(servers + 1)]
        real = [f"127.0.0.1:{port}" for port in ports]
        reachable, proxies = real, []
        if delay_ms:
            proxy = _child(
                stack,
                "delay proxy",
                "graph_opt.cli",
                ["proxy", "--delay-ms", str(delay_ms), *real],
            )
            reachable = [f"127.0.0.1:{port}" for port in proxy.ready_line().split()]
            proxies = [proxy]
        children = [
            _child(
                stack,
                f"parameter server {task}",
                "tools.bench.cluster.parameter_server",
                ["--cluster", json.dumps(_view(real, reachable, task)), "--task", str(task)],
            )
            for task in range(servers)
        ]
        for child in children:
            child.ready_line()
        worker = tf.train.Server(
            tf.train.ClusterSpec(_view(real, reachable, servers)), job_name="worker", task_index=0
        )
    return Cluster(worker.target, children, proxies)


def _child(
    stack: contextlib.ExitStack, label: str, module: str, arguments: Sequence[str]
) -> ChildProcess:
    child = ChildProcess(label, module, arguments)
    stack.callback(child.close)
    return child


def _view(real: Sequence[str], reachable: Sequence[str], own: int) -> Dict[str, List[str]]:
    """The cluster as server `own` sees it; the worker is the last of all servers."""
    addresses = list(reachable)
    addresses[own] = real[own]
    return {"ps": addresses[:-1], "worker": addresses[-1:]}


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """A free port that the operating system gives to nobody else inside the block.

    Every server must know the others' ports before it starts. The port is bound here but not
    listened on, and gRPC binds with SO_REUSEADDR, so that the server can still take it.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
