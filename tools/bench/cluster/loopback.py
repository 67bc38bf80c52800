"""A small TF1 cluster on loopback: parameter servers in processes of their own, a worker here.

                     delay proxy (only with a delay)
                   ┌──────────────────────────────┐
    worker ───────►│ port a ──(D ms each way)──►  │──► ps 0
    (this process) │                              │    (child process)
    worker ◄───────│  ◄──(D ms each way)── port b │◄── ps 0
                   └──────────────────────────────┘

TensorFlow's servers call each other in both directions: the worker asks a parameter server for
rows, the parameter server asks the worker for ids and gradients. So every server is told the
proxy's port in place of each other server's own, and listens on its own real port. Further workers
are processes that others start (`Cluster.others`): they have such a view of the cluster each.
"""

from __future__ import annotations

import contextlib
import json
import socket
from concurrent import futures
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from tools.bench.cluster.processes import ChildProcess, own_cpu_seconds

PATIENCE_SECONDS = 3.0  # a failed call can be seen before the operating system reports the death


class Place(NamedTuple):
    """A worker of a cluster, as it sees the cluster.

    Attributes:
      view: addresses by job.
      task: its number among the workers.
    """

    view: Dict[str, List[str]]
    task: int

    @property
    def device(self) -> Callable[[tf.Operation], str]:
        """A `tf.device` argument: variables on the parameter servers, the rest on this worker."""
        return tf.train.replica_device_setter(
            ps_tasks=len(self.view["ps"]), worker_device=self._worker
        )

    @property
    def device_filters(self) -> List[str]:
        """What this worker's sessions talk to: none of the other workers."""
        return ["/job:ps", self._worker]

    @property
    def _worker(self) -> str:
        return "/job:worker/task:{}".format(self.task)

    def start_server(self) -> tf.train.Server:
        """Starts this worker's server, in this process."""
        return tf.train.Server(
            tf.train.ClusterSpec(self.view), job_name="worker", task_index=self.task
        )


class Cluster:
    """Where variables live and which session to open; without servers: this process alone.

    Attributes:
      master: target of sessions ("" for an in-process session).
      servers: the parameter-server processes.
      proxies: the process of the delay proxy, if there is one.
      place: this process's; None without servers.
      others: the other workers.
    """

    def __init__(
        self,
        master: str = "",
        servers: Sequence[ChildProcess] = (),
        proxies: Sequence[ChildProcess] = (),
        place: Optional[Place] = None,
        others: Sequence[Place] = (),
    ) -> None:
        self.master = master
        self.servers = tuple(servers)
        self.proxies = tuple(proxies)
        self.place = place
        self.others = tuple(others)

    @property
    def device(self) -> Callable[[tf.Operation], str]:
        """A `tf.device` argument: variables on the parameter servers, the rest on the worker."""
        return self.place.device if self.place else lambda operation: ""

    @property
    def is_chief(self) -> bool:
        """Whether this worker initializes variables."""
        return self.place is None or self.place.task == 0

    def set_delay(self, delay_ms: float) -> None:
        """Moves the servers nearer or farther; only where a proxy is between.

        Args:
          delay_ms: latency each way, >= 0.
        """
        for proxy in self.proxies:
            proxy.tell(str(delay_ms))
            proxy.ready_line()

    def passed(self) -> Tuple[int, int]:
        """Calls and bytes that have passed between all tasks; only where a proxy counts them."""
        (proxy,) = self.proxies
        proxy.tell("")
        calls, size = proxy.ready_line().split()
        return int(calls), int(size)

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
    parameter servers forever. That is right where something restarts them; here nothing does.
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
def start_cluster(
    servers: int, delay_ms: float = 0.0, workers: int = 1, counts: bool = False
) -> Iterator[Cluster]:
    """Starts parameter servers, the proxy if there is a delay, and this process's worker server.

    Args:
      servers: parameter-server processes; 0: no cluster, everything in this process.
      delay_ms: latency each way between worker and parameter servers, >= 0.
      workers: this process, and others that the caller starts.
      counts: have a proxy, which counts calls and bytes, even without a delay.

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
        yield _started(stack, servers, delay_ms, workers, counts)


@contextlib.contextmanager
def start_clusters(
    number: int, servers: int, delay_ms: float = 0.0, workers: int = 1
) -> Iterator[Iterator[Cluster]]:
    """Starts clusters side by side, each while the caller prepares what uses the one before.

    A parameter server imports TensorFlow for seconds before it serves.

    Args:
      number: of clusters.
      servers: parameter-server processes of each.
      delay_ms: latency each way.
      workers: of each; see `start_cluster`.

    Yields:
      The clusters, one after the other. Their processes end with the block, whatever ends it.

    Raises:
      processes.ProcessEnded: a process could not be started.
    """
    with contextlib.ExitStack() as stack, futures.ThreadPoolExecutor(1) as pool:

        def start() -> Cluster:
            return stack.enter_context(start_cluster(servers, delay_ms, workers))

        def started() -> Iterator[Cluster]:
            following = pool.submit(start)
            for left in reversed(range(number)):
                cluster = following.result()
                if left:
                    following = pool.submit(start)
                yield cluster

        yield started()


def _started(
    stack: contextlib.ExitStack, servers: int, delay_ms: float, workers: int, counts: bool
) -> Cluster:
    with contextlib.ExitStack() as reservations:
        ports = [reservations.enter_context(_reserved_port()) for _ in range(servers + workers)]
        real = [f"127.0.0.1:{port}" for port in ports]
        reachable, proxies = real, []
        if delay_ms or counts:
            arguments = ["proxy", "--count", "--delay-ms", str(delay_ms), *real]
            proxy = _child(stack, "delay proxy", "graph_opt.cli", arguments)
            reachable = [f"127.0.0.1:{port}" for port in proxy.ready_line().split()]
            proxies = [proxy]
        children = [
            _child(
                stack,
                f"parameter server {task}",
                "tools.bench.cluster.parameter_server",
                [
                    "--cluster",
                    json.dumps(_view(real, reachable, task, servers)),
                    "--task",
                    str(task),
                ],
            )
            for task in range(servers)
        ]
        for child in children:
            child.ready_line()
        place, *others = (
            Place(_view(real, reachable, servers + task, servers), task) for task in range(workers)
        )
        worker = place.start_server()
    return Cluster(worker.target, children, proxies, place, others)


def _child(
    stack: contextlib.ExitStack, label: str, module: str, arguments: Sequence[str]
) -> ChildProcess:
    child = ChildProcess(label, module, arguments)
    stack.callback(child.close)
    return child


def _view(
    real: Sequence[str], reachable: Sequence[str], own: int, servers: int
) -> Dict[str, List[str]]:
    """The cluster as task `own` sees it; workers come after the servers."""
    addresses = list(reachable)
    addresses[own] = real[own]
    return {"ps": addresses[:servers], "worker": addresses[servers:]}


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
