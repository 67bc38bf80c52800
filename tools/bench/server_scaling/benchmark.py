"""Many workers and servers, simulated from what the benchmark `train` measured.

Figures of each model and mode, with latency of 1 ms each way:

    steps_per_s       of all workers together, each task on a machine of its own
    speed_up          the same over that of one worker with one server
    server_busy       share of the servers' cores that work
    network_busy      share of the time in which a server's network moves bytes
    ratio_to_measured  of simulated steps, where all tasks share the machine that measured, over
                      those that were measured there
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

from tools.bench.machine import cores
from tools.bench.process_outcome import nothing_of
from tools.bench.records import Outcome, Record, read
from tools.bench.server_scaling.costs import StepCosts, costs_of, measured, step_seconds
from tools.bench.server_scaling.simulation import Machines, simulate

MEASURED = (Path("build/bench/train.json"), Path("docs/benchmarks/train.json"))
LATENCY = 1e-3
CORES = 2
NETWORK_BYTES_PER_SECOND = 2 * 25e9 / 8  # 25 Gbit/s each way
SIZES: Tuple[Tuple[int, int], ...] = ((1, 1), (1, 4), (2, 8), (4, 15), (8, 30))
_QUICK_SIZES = SIZES[:2]


def run(quick: bool = False) -> Outcome:
    """Simulates; `quick` does so for few tasks.

    Raises:
      FileNotFoundError: The benchmark `train` has not been run.
    """
    outcome = _measured()
    found = Outcome(())
    for workload, mode in measured(outcome):
        try:
            costs = costs_of(outcome, workload, mode)
        except LookupError as error:
            found += nothing_of((workload, mode, {}), ["steps_per_s"], error)
            continue
        sizes = _QUICK_SIZES if quick else SIZES
        found += Outcome(tuple(_of_sizes(workload, mode, costs, sizes)))
        found += Outcome(tuple(_checks(outcome, workload, mode, costs)))
    return found


def _measured() -> Outcome:
    for path in MEASURED:
        if path.exists():
            return read(path)
    raise FileNotFoundError("{} is not there: `make bench-train` writes it".format(MEASURED[0]))


def _of_sizes(
    workload: str, mode: str, costs: StepCosts, sizes: Tuple[Tuple[int, int], ...]
) -> Iterator[Record]:
    alone = simulate(costs, _machines(*sizes[0])).steps_per_s
    for servers, workers in sizes:
        simulated = simulate(costs, _machines(servers, workers))
        params = {"servers": servers, "workers": workers, "delay_ms": LATENCY * 1e3}
        of_mode = (workload, mode, params)
        yield Record("steps_per_s", *of_mode, simulated.steps_per_s, "1/s")
        yield Record("speed_up", *of_mode, simulated.steps_per_s / alone)
        yield Record("server_busy", *of_mode, simulated.server_busy)
        yield Record("network_busy", *of_mode, simulated.network_busy)


def _machines(servers: int, workers: int) -> Machines:
    return Machines(servers, workers, LATENCY, CORES, NETWORK_BYTES_PER_SECOND)


def _checks(outcome: Outcome, workload: str, mode: str, costs: StepCosts) -> Iterator[Record]:
    for workers in (1, 2):
        for latency, seconds in sorted(step_seconds(outcome, workload, mode, workers).items()):
            machines = Machines(workers, workers, latency, cores(), one_machine=True)
            ratio = simulate(costs, machines).steps_per_s * seconds / workers
            params: Dict[str, Any] = {"servers": workers, "workers": workers}
            params["delay_ms"] = latency * 1e3
            yield Record("ratio_to_measured", workload, mode, params, ratio)
