"""What a step costs a worker and its servers, from the measurements of one of each."""

from __future__ import annotations

import statistics
from typing import Dict, List, NamedTuple, Tuple

from tools.bench.records import Outcome, Record


class StepCosts(NamedTuple):
    """Of one step of one worker.

    Attributes:
      worker_cpu: CPU seconds on the worker's machine.
      server_cpu: CPU seconds on all servers together.
      parallel: How many cores work on it on average, when servers are near.
      waits: Seconds that it becomes longer for each second of latency, each way.
      bytes: That pass between the worker and all servers, in both directions.
    """

    worker_cpu: float
    server_cpu: float
    parallel: float
    waits: float
    bytes: float


def costs_of(outcome: Outcome, workload: str, mode: str) -> StepCosts:
    """The costs of a mode, from what the benchmark `train` measured.

    A step of one worker and one server takes `cpu / parallel + waits * latency` seconds: the first
    part is what was measured without latency, `waits` is fitted to all latencies.

    Raises:
      LookupError: It was not measured, or without some of its figures.
    """
    times = step_seconds(outcome, workload, mode, workers=1)
    latencies = sorted(times)
    if len(latencies) < 2 or latencies[0]:
        raise LookupError("no steps of {} ({}) with and without latency".format(workload, mode))
    found = _of_mode(outcome, workload, mode)
    cpu = statistics.median(_values(found, "cpu_s_per_step"))
    server_cpu = statistics.median(_values(found, "server_cpu_s_per_step"))
    near = times[0.0]
    late = [(latency, times[latency] - near) for latency in latencies[1:]]
    waits = sum(latency * more for latency, more in late) / sum(each * each for each, _ in late)
    (size,) = _values(found, "bytes_per_step", servers=1)
    return StepCosts(cpu - server_cpu, server_cpu, cpu / near, max(waits, 0.0), size)


def step_seconds(outcome: Outcome, workload: str, mode: str, workers: int) -> Dict[float, float]:
    """Seconds that a step of each of so many workers took, by latency in seconds each way."""
    return {
        record.params["delay_ms"] / 1e3: workers / record.value
        for record in _of_mode(outcome, workload, mode)
        if record.figure == "steps_per_s" and record.params.get("workers", 1) == workers
    }


def measured(outcome: Outcome) -> List[Tuple[str, str]]:
    """Workloads and modes of which there are steps, and the bytes that these send."""
    found = [
        (record.workload, record.mode)
        for record in outcome.records
        if record.figure == "bytes_per_step"
    ]
    return list(dict.fromkeys(found))


def _of_mode(outcome: Outcome, workload: str, mode: str) -> List[Record]:
    """Of a mode, all that was measured with servers."""
    return [
        record
        for record in outcome.records
        if (record.workload, record.mode) == (workload, mode)
        and not {"delay_ms", "servers"}.isdisjoint(record.params)
    ]


def _values(records: List[Record], figure: str, **params: int) -> List[float]:
    """Values of a figure, of one worker or as the params say."""
    wanted = params or {"workers": 1}
    found = [
        record.value
        for record in records
        if record.figure == figure
        and all(record.params.get(name, 1) == value for name, value in wanted.items())
    ]
    if not found:
        raise LookupError("no {} was measured".format(figure))
    return found
