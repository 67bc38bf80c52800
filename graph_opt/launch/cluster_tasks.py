"""The tasks of a TensorFlow cluster on this machine, and how each finds the others.

Every address is chosen before a task starts, and held by a socket that does not listen. Where the
network is to be slow, a proxy is in front of each address: a task listens on its own address, and
reaches the others by those of their proxies.
"""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

PS = "ps"
CHIEF = "chief"
WORKER = "worker"
EVALUATOR = "evaluator"

_LOOPBACK = "127.0.0.1"


class ClusterTask(NamedTuple):
    """One task of a cluster.

    Attributes:
      job: Its job: `ps`, `chief`, `worker` or `evaluator`.
      number: Its number in the job.
    """

    job: str
    number: int

    @property
    def name(self) -> str:
        """`worker 1`; `chief` and `evaluator` have no number, since there is one at most."""
        return self.job if self.job in (CHIEF, EVALUATOR) else "{} {}".format(*self)

    @property
    def file_stem(self) -> str:
        """The name as part of a file's name."""
        return self.name.replace(" ", "_")


class Cluster(NamedTuple):
    """Which tasks there are, and where they listen.

    Attributes:
      tasks: The tasks, parameter servers first.
      addresses: Where each of them listens; none for an evaluator, which nobody calls.
      reachable: Where the others reach it: the same, unless something is between.
    """

    tasks: Tuple[ClusterTask, ...]
    addresses: Dict[ClusterTask, str]
    reachable: Dict[ClusterTask, str]

    def seen_by(self, task: ClusterTask) -> Dict[str, List[str]]:
        """Addresses by job, as a task must know them: it listens on its own."""
        jobs: Dict[str, List[str]] = {}
        for other in self.tasks:
            if other in self.addresses:
                known = self.addresses if other == task else self.reachable
                jobs.setdefault(other.job, []).append(known[other])
        return jobs

    def tf_config(self, task: ClusterTask) -> str:
        """The value of `TF_CONFIG` for a task."""
        place = {"type": task.job, "index": task.number}
        return json.dumps({"cluster": self.seen_by(task), "task": place})

    def filled_in(self, task: ClusterTask, argument: str) -> str:
        """An argument with `{job}`, `{index}`, `{ps_hosts}` and `{worker_hosts}` filled in.

        Example:
          >>> cluster.filled_in(ClusterTask("worker", 1), "--task_index={index}")
          '--task_index=1'
        """
        jobs = self.seen_by(task)
        values = {
            "{job}": task.job,
            "{index}": str(task.number),
            "{ps_hosts}": ",".join(jobs.get(PS, ())),
            "{worker_hosts}": ",".join(jobs.get(WORKER, ())),
        }
        for name, value in values.items():
            argument = argument.replace(name, value)
        return argument


def tasks_of(servers: int, workers: int, has_chief: bool, has_evaluator: bool) -> List[ClusterTask]:
    """The tasks of a cluster, parameter servers first.

    Args:
      servers: Number of parameter servers.
      workers: Number of workers, the chief included.
      has_chief: Whether the first worker is task 0 of a job `chief`, as Estimators want it; else it
        is task 0 of `worker`.
      has_evaluator: Whether there is an evaluator.

    Example:
      >>> [task.name for task in tasks_of(1, 2, True, False)]
      ['ps 0', 'chief', 'worker 0']
    """
    tasks = [ClusterTask(PS, index) for index in range(servers)]
    if has_chief:
        tasks.append(ClusterTask(CHIEF, 0))
    tasks += [ClusterTask(WORKER, index) for index in range(workers - has_chief)]
    if has_evaluator:
        tasks.append(ClusterTask(EVALUATOR, 0))
    return tasks


@contextlib.contextmanager
def free_addresses(count: int) -> Iterator[List[str]]:
    """Addresses of this machine that the operating system gives to nobody else in the block.

    All tasks must know where the others will listen before these start. Each port is bound here,
    but not listened on; gRPC binds with SO_REUSEADDR, so a server can take it, and take it again
    when it is started anew.
    """
    with contextlib.ExitStack() as stack:
        addresses = []
        for _ in range(count):
            holder = stack.enter_context(contextlib.closing(socket.socket()))
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((_LOOPBACK, 0))
            addresses.append("{}:{}".format(*holder.getsockname()))
        yield addresses


def with_addresses(tasks: Sequence[ClusterTask], addresses: Sequence[str]) -> Cluster:
    """The cluster of the tasks, of which those that are called have these addresses, in order."""
    called = [task for task in tasks if task.job != EVALUATOR]
    places = dict(zip(called, addresses))
    return Cluster(tuple(tasks), places, places)
