"""A simulation of workers that train against parameter servers, with SimPy.

    worker   computes (its machine's cores)
             then, with each server at the same time:
                 its part of the bytes passes the server's network
                 its part of the work is done by the server (its machine's cores)
             then waits for what latency adds to a step
             and starts again

Cores are given out for a millisecond at a time, so that all who want them get their share. Steps
differ a little in length, since workers that never meet would never wait for each other.
"""

from __future__ import annotations

import random
from typing import Any, Dict, Generator, List, NamedTuple

import simpy

from tools.bench.server_scaling.costs import StepCosts

_SLICE = 1e-3  # seconds for which a core is given out
_VARIATION = 0.1  # of a step's length: standard deviation over mean
_STEPS = 120  # of each worker, after those in which they fall out of step
_BEFORE = 30
_SEED = 1


class Machines(NamedTuple):
    """Where the tasks are.

    Attributes:
      servers: How many.
      workers: How many.
      latency: Seconds, each way.
      cores: Of each machine.
      bytes_per_second: That a server's network moves in both directions together; 0: any number.
      one_machine: Whether all tasks share the cores of one machine.
    """

    servers: int
    workers: int
    latency: float
    cores: int = 2
    bytes_per_second: float = 0.0
    one_machine: bool = False


class Simulated(NamedTuple):
    """What came of it.

    Attributes:
      steps_per_s: Of all workers together.
      server_busy: Share of the servers' cores that work.
      network_busy: Share of the time in which a server's network moves bytes.
    """

    steps_per_s: float
    server_busy: float
    network_busy: float


def simulate(costs: StepCosts, machines: Machines) -> Simulated:
    """Runs all workers for some steps. The same arguments give the same result.

    Args:
      costs: Of a step.
      machines: Where it is run.
    """
    return _Run(costs, machines).result()


class _Run:
    def __init__(self, costs: StepCosts, machines: Machines) -> None:
        self._costs = costs
        self._machines = machines
        self._random = random.Random(_SEED)
        self._clock = simpy.Environment()
        count = machines.servers + machines.workers
        cores = [
            simpy.Resource(self._clock, machines.cores)
            for _ in range(1 if machines.one_machine else count)
        ]
        self._cores_of = [cores[task % len(cores)] for task in range(count)]
        self._networks = [simpy.Resource(self._clock) for _ in range(machines.servers)]
        self._busy: Dict[str, float] = {"server": 0.0, "network": 0.0}
        self._ended: List[float] = []
        self._started: List[float] = []

    def result(self) -> Simulated:
        workers = self._machines.workers
        for worker in range(workers):
            self._clock.process(self._worker(self._machines.servers + worker))
        self._clock.run()
        rate = sum(_STEPS / (end - start) for start, end in zip(self._started, self._ended))
        seconds = self._clock.now * self._machines.servers
        return Simulated(
            rate,
            self._busy["server"] / (seconds * self._machines.cores),
            self._busy["network"] / seconds,
        )

    def _worker(self, task: int) -> Generator[Any, Any, None]:
        for step in range(_BEFORE + _STEPS):
            if step == _BEFORE:
                self._started.append(self._clock.now)
            longer = max(0.1, self._random.gauss(1.0, _VARIATION))
            yield self._clock.process(self._work(task, self._costs.worker_cpu * longer))
            servers = range(self._machines.servers)
            yield self._clock.all_of([self._clock.process(self._ask(each)) for each in servers])
            yield self._clock.timeout(self._costs.waits * self._machines.latency)
        self._ended.append(self._clock.now)

    def _ask(self, server: int) -> Generator[Any, Any, None]:
        """A server's part of a step."""
        if self._machines.bytes_per_second:
            size = self._costs.bytes / self._machines.servers
            seconds = size / self._machines.bytes_per_second
            with self._networks[server].request() as turn:
                yield turn
                yield self._clock.timeout(seconds)
            self._busy["network"] += seconds
        cpu = self._costs.server_cpu / self._machines.servers
        self._busy["server"] += cpu
        yield self._clock.process(self._work(server, cpu))

    def _work(self, task: int, cpu: float) -> Generator[Any, Any, None]:
        """So many CPU seconds on a task's machine, on several cores at a time or with waits."""
        parallel = self._costs.parallel
        each = cpu / max(parallel, 1.0)
        strands = [each] * int(max(parallel, 1.0))
        strands.append(cpu - sum(strands))
        yield self._clock.all_of([self._clock.process(self._on_core(task, one)) for one in strands])
        yield self._clock.timeout(max(0.0, cpu / parallel - cpu))

    def _on_core(self, task: int, seconds: float) -> Generator[Any, Any, None]:
        cores = self._cores_of[task]
        while seconds > 0:
            part = min(_SLICE, seconds)
            with cores.request() as turn:
                yield turn
                yield self._clock.timeout(part)
            seconds -= part
