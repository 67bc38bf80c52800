"""More workers and servers than were measured: the costs of a step, and the simulation of many."""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from tests.quick_cases import one_of_each
from tools.bench.records import Outcome, Record
from tools.bench.server_scaling import page
from tools.bench.server_scaling.benchmark import SIZES
from tools.bench.server_scaling.costs import StepCosts, costs_of
from tools.bench.server_scaling.simulation import Machines, simulate

COSTS = StepCosts(0.03, 0.008, 1.5, 6.0, 1e6)


def measured() -> Outcome:
    """Steps that take 25 ms, and 6 ms more for each millisecond of latency."""

    def records() -> Iterator[Record]:
        for delay_ms in (0.0, 1.0, 3.0):
            params: Any = {"delay_ms": delay_ms}
            yield Record("steps_per_s", "wide", "both", params, 1e3 / (25.0 + 6.0 * delay_ms))
            yield Record("cpu_s_per_step", "wide", "both", params, 0.038)
            yield Record("server_cpu_s_per_step", "wide", "both", params, 0.008)
            yield Record("steps_per_s", "wide", "both", dict(params, workers=2), 1.0)
        for servers, value in ((1, 1e6), (2, 7.0)):
            yield Record("bytes_per_step", "wide", "both", {"servers": servers}, value)

    return Outcome(tuple(records()))


def test_costs_are_those_of_one_worker() -> None:
    costs = costs_of(measured(), "wide", "both")
    assert costs == pytest.approx((0.03, 0.008, 0.038 / 0.025, 6.0, 1e6))
    with pytest.raises(LookupError, match="stock"):
        costs_of(measured(), "wide", "stock")


@pytest.mark.parametrize("parallel, latency", one_of_each([0.7, 1.0, 1.5, 2.0], [0.0, 1e-3, 3e-3]))
def test_one_worker_alone_takes_what_was_measured(parallel: float, latency: float) -> None:
    costs = COSTS._replace(parallel=parallel)
    rate = simulate(costs, Machines(1, 1, latency)).steps_per_s
    assert 1.0 / rate == pytest.approx(0.038 / parallel + 6.0 * latency, rel=0.03)


def test_servers_and_networks_limit_workers() -> None:
    few = simulate(COSTS, Machines(2, 4, 1e-3))
    alone = simulate(COSTS, Machines(1, 1, 1e-3)).steps_per_s
    assert few.steps_per_s == pytest.approx(4 * alone, rel=0.1)
    by_servers = simulate(COSTS._replace(worker_cpu=0.005), Machines(1, 10, 1e-3))
    assert by_servers.steps_per_s == pytest.approx(2 / COSTS.server_cpu, rel=0.1)
    assert by_servers.server_busy == pytest.approx(1.0, abs=0.1)
    by_network = simulate(COSTS, Machines(1, 5, 1e-3, bytes_per_second=2.5e7))
    assert by_network.steps_per_s == pytest.approx(25.0, rel=0.1)
    assert by_network.network_busy == pytest.approx(1.0, abs=0.1)


def test_tasks_of_one_machine_share_its_cores() -> None:
    shared = simulate(COSTS, Machines(2, 2, 0.0, one_machine=True)).steps_per_s
    assert shared == pytest.approx(2 / 0.038, rel=0.1)


def test_the_table_has_all_sizes() -> None:
    records = [
        Record(figure, "dlrm", "both", {"servers": servers, "workers": workers}, 0.5)
        for figure in ("steps_per_s", "speed_up", "server_busy")
        for servers, workers in SIZES
    ]
    (row,) = page.rows(Outcome(tuple(records)))
    assert row.startswith("| DLRM, fused and ahead | 0 steps/s | 0.5 |")
    (busy,) = page.busy_rows(Outcome(tuple(records)))
    assert busy.startswith("| DLRM, fused and ahead | 50% | 50% |")
    lines = (*page.HEAD, row, *page.BUSY_HEAD, busy)
    assert {line.count("|") for line in lines} == {len(SIZES) + 2}
