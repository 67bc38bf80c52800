"""The figures of the benchmark of Adam follow from its turns and from what memory allows."""

from __future__ import annotations

from typing import Dict, List

import pytest

from tests.tools.bench.test_training_figures import turns
from tools.bench.adam import benchmark
from tools.bench.adam.figures import growth, outcome_of
from tools.bench.adam.scenarios import SCENARIOS, Scenario, scenario_of
from tools.bench.adam.traffic import MemoryCopy, Traffic, rows_per_step
from tools.bench.records import Goal, Outcome, Record
from tools.bench.workloads.measured import Tables

SMALL = scenario_of("dlrm", 20000)
MEDIUM = scenario_of("dlrm", 200000)
LARGE = scenario_of("dlrm", 1000000)
ROW_BYTES = 4 * 16


def figures(outcome: Outcome) -> Dict[str, Record]:
    return {record.figure + "/" + record.mode: record for record in outcome.records}


def measured(scenario: Scenario, stock: List[float], deferred: float, lazy: float) -> Outcome:
    """Of three rounds, each mode's milliseconds a step; memory moves 1 GB/s."""
    taken = turns(stock=stock, deferred=[deferred] * 3, lazy=[lazy] * 3)
    return outcome_of(scenario, taken, Traffic(5000.0, scenario.tables, [1e9, 2e9, 0.5e9]))


def test_ratios_are_those_of_each_round() -> None:
    found = figures(measured(MEDIUM, [100.0, 120.0, 110.0], deferred=10.0, lazy=9.0))
    assert found["ratio_to_stock/deferred"].runs == pytest.approx((10, 12, 11))
    assert found["ratio_to_lazy/deferred"].value == pytest.approx(0.9)
    assert "ratio_to_lazy/lazy" not in found


def test_the_floor_is_the_bytes_of_the_rows_or_of_the_whole_tables() -> None:
    found = figures(measured(MEDIUM, [100.0] * 3, deferred=10.0, lazy=9.0))
    rows = 7 * 5000 * ROW_BYTES  # read by the lookup; w, m and v read and written by the update
    tables = 5000 * ROW_BYTES + 6 * 26 * 200000 * ROW_BYTES
    assert found["steps_per_s/deferred"].floor == pytest.approx(1e9 / rows)
    assert found["steps_per_s/lazy"].floor == pytest.approx(1e9 / rows)
    assert found["steps_per_s/stock"].floor == pytest.approx(1e9 / tables)
    assert found["ratio_to_stock/deferred"].floor == pytest.approx(0.1 * 1e9 / rows)


@pytest.mark.parametrize(
    "scenario, to_stock, to_lazy",
    [
        (SMALL, Goal(">=", 0.97), Goal(">=", 0.85)),
        (MEDIUM, Goal(">=", 8.0), Goal(">=", 0.85)),
        (LARGE, Goal(">=", 30.0), Goal(">=", 0.85)),
        (scenario_of("dlrm", 1000000, 1.0), Goal(">=", 0.97), None),
        (scenario_of("wide", 1000000), Goal(">=", 0.97), None),
    ],
)
def test_goals_are_those_of_deferred_adam(
    scenario: Scenario, to_stock: Goal, to_lazy: Goal
) -> None:
    found = figures(measured(scenario, [100.0] * 3, deferred=10.0, lazy=9.0))
    assert found["ratio_to_stock/deferred"].goal == to_stock
    assert found["ratio_to_lazy/deferred"].goal == to_lazy
    assert found["ratio_to_stock/lazy"].goal is None


def test_growth_is_the_power_of_the_rows() -> None:
    scenarios = (SMALL, MEDIUM)
    outcome = measured(SMALL, [10.0, 20.0, 10.0], deferred=10.0, lazy=9.0)
    outcome += measured(MEDIUM, [100.0, 200.0, 200.0], deferred=10.0, lazy=9.0)
    found = figures(growth(scenarios, outcome))
    assert found["growth_exponent/stock"].runs == pytest.approx((1.0, 1.0, 1.30103))
    assert found["growth_exponent/deferred"].value == pytest.approx(0.0)
    assert found["growth_exponent/deferred"].floor == pytest.approx(0.0)
    assert found["growth_exponent/deferred"].goal == Goal("<=", 0.1)
    assert found["growth_exponent/stock"].floor == pytest.approx(1.0, abs=0.01)
    params = {"least_rows": 20000, "most_rows": 200000, "tables": 26, "width": 16, "batch": 512}
    assert found["growth_exponent/stock"].params == params


def test_what_does_not_fit_into_memory_is_absent_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(benchmark, "available_bytes", lambda: 8 << 30)
    monkeypatch.setattr(benchmark, "SCENARIOS", (LARGE,))
    with pytest.raises(RuntimeError, match="needs 16 GiB of memory, of which 8 are free"):
        benchmark.run()


def test_all_scenarios_fit_into_24_gib() -> None:
    assert max(scenario.bytes_needed for scenario in SCENARIOS) < 20 << 30
    assert all("delay_ms" in each.params for each in SCENARIOS if each.servers)


def test_rows_of_a_batch_are_counted_once(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(str(tmp_path))
    # Zipf's most frequent ids take all of two rows; a thousand rows are not all in one batch.
    few = Scenario("wide", Tables(4, 2, 4), batch=64).model(quick=True)
    many = Scenario("wide", Tables(4, 1000, 4), batch=64).model(quick=True)
    assert rows_per_step(few) == pytest.approx(8.0)
    assert 8.0 < rows_per_step(many) <= 4 * 64 * 2


def test_copies_move_memory() -> None:
    assert MemoryCopy(1 << 20).bytes_per_s(0.01) > 0.0
