"""The figures of a training scenario follow from its turns, by the formulas of the issue."""

from __future__ import annotations

from typing import Dict, List

import pytest

from tools.bench.machine import cores
from tools.bench.records import Goal, Record
from tools.bench.training.contenders import Turn
from tools.bench.training.contests import IN_PROCESS, Contest, Overlap, Scenario, goal_of
from tools.bench.training.figures import outcome_of
from tools.bench.training.sessions import ASYNC, STOCK

AHEAD = Contest((STOCK, ASYNC), (Overlap(ASYNC, STOCK),))
STEPS = 10


def turn(
    milliseconds: float, cpu_milliseconds: float = 0.0, proxy_milliseconds: float = 0.0
) -> Turn:
    """A turn of ten steps; its counters say that main waited 1 ms a step, the lookups 2 ms."""
    cpu_seconds = {
        "worker": 0.75e-3 * cpu_milliseconds * STEPS,
        "ps": 0.25e-3 * cpu_milliseconds * STEPS,
        "proxy": 1e-3 * proxy_milliseconds * STEPS,
    }
    prefetch = {"take_wait_micros": 1000 * STEPS, "put_wait_micros": 2000 * STEPS}
    buffers = {"async_embedding_io": {}, "async_embedding": prefetch}
    return Turn(STEPS, 1e-3 * milliseconds * STEPS, cpu_seconds, [], buffers)


def turns(**milliseconds: List[float]) -> Dict[str, List[Turn]]:
    return {name: [turn(each) for each in runs] for name, runs in milliseconds.items()}


def figures(records: object) -> Dict[str, Record]:
    return {record.figure + "/" + record.mode: record for record in records}  # type: ignore


def measured(main_alone: float = 12.0, lookups_alone: float = 4.0) -> Dict[str, List[Turn]]:
    return turns(
        **{
            "stock": [20.0, 22.0, 18.0],
            "async": [12.8, 16.0, 12.0],
            "main_alone": [main_alone] * 3,
            "lookups_alone": [lookups_alone] * 3,
        }
    )


def test_the_ratio_is_that_of_each_round() -> None:
    ratio = figures(outcome_of(AHEAD, Scenario("dlrm"), measured()).records)["ratio_to_stock/async"]
    assert ratio.runs == pytest.approx((20 / 12.8, 22 / 16, 18 / 12))
    assert ratio.value == pytest.approx(1.5)


def test_rates_have_the_floor_beside_them() -> None:
    found = figures(outcome_of(AHEAD, Scenario("dlrm"), measured()).records)
    assert found["steps_per_s/stock"].value == pytest.approx(50.0)
    assert found["steps_per_s/async"].value == pytest.approx(1 / 12.8e-3)
    assert found["steps_per_s/async"].floor == pytest.approx(1 / 12e-3)


def test_the_efficiency_is_the_share_of_the_possible_gain() -> None:
    efficiency = figures(outcome_of(AHEAD, Scenario("dlrm"), measured()).records)[
        "overlap_efficiency/async"
    ]
    assert efficiency.runs == pytest.approx((7.2 / 8, 6 / 10, 6 / 6))
    assert efficiency.value == pytest.approx(0.9)


@pytest.mark.parametrize("main_alone, lookups_alone", [(12.0, 17.0), (17.0, 12.0)])
def test_the_floor_is_the_longer_of_the_parts(main_alone: float, lookups_alone: float) -> None:
    found = figures(
        outcome_of(AHEAD, Scenario("wide"), measured(main_alone, lookups_alone)).records
    )
    assert found["steps_per_s/stock"].floor == pytest.approx(1 / 17e-3)


def test_the_floor_is_the_cores_where_they_are_busiest() -> None:
    busy = measured()
    busy["stock"] = [turn(20.0, 16.5 * cores(), 2.0 * cores()) for _ in range(3)]
    busy["async"] = [turn(19.0, 16.0 * cores(), 1.0 * cores()) for _ in range(3)]
    found = figures(outcome_of(AHEAD, Scenario("wide", 1.0), busy).records)
    # The proxy takes the cores' time, too, but not as a part of the step.
    assert found["steps_per_s/stock"].floor == pytest.approx(1 / 17e-3)
    assert found["cpu_s_per_step/stock"].value == pytest.approx(16.5e-3 * cores())
    assert found["proxy_cpu_s_per_step/stock"].value == pytest.approx(2e-3 * cores())


def test_without_a_delay_there_is_no_proxy() -> None:
    found = figures(outcome_of(AHEAD, Scenario("wide", 0.0), measured()).records)
    assert "server_cpu_s_per_step/stock" in found and "proxy_cpu_s_per_step/stock" not in found


def test_an_efficiency_without_room_to_gain_is_absent_with_its_reason() -> None:
    outcome = outcome_of(AHEAD, Scenario("dlrm"), measured(main_alone=19.5))
    assert "overlap_efficiency/async" not in figures(outcome.records)
    (absent,) = outcome.absent
    assert absent.figure == "overlap_efficiency"
    assert absent.reason == "stock's 20.00 ms a step are 1.03 of the floor of 19.50 ms: no room"


def test_waits_are_those_of_the_prefetch_buffer() -> None:
    found = figures(outcome_of(AHEAD, Scenario("dlrm"), measured()).records)
    assert found["take_wait_s_per_step/async"].value == pytest.approx(1e-3)
    assert found["put_wait_s_per_step/async"].value == pytest.approx(2e-3)


def all_modes() -> Dict[str, List[Turn]]:
    """Fused in 10 ms, both in 8 ms, and a floor of 6 ms between them."""
    measured_turns = measured(main_alone=6.0)
    measured_turns["fused"] = [turn(10.0)] * 3
    measured_turns["both"] = [turn(8.0)] * 3
    measured_turns["exact"] = [turn(9.0)] * 3
    measured_turns["products_alone"] = [turn(5.0)] * 3
    return measured_turns


def test_with_all_modes_the_floor_is_that_of_the_fused_lookups() -> None:
    found = figures(outcome_of(IN_PROCESS, Scenario("dlrm"), all_modes()).records)
    assert found["ratio_to_stock/fused"].value == pytest.approx(2.0)
    assert found["ratio_to_stock/both"].value == pytest.approx(2.5)
    assert found["overlap_efficiency/both"].value == pytest.approx(0.5)
    assert found["products_alone_s_per_step/both"].value == pytest.approx(5e-3)
    for mode in ("fused", "both"):
        assert found["steps_per_s/" + mode].floor == pytest.approx(1 / 6e-3)
    for mode in ("stock", "async"):
        assert found["steps_per_s/" + mode].floor is None


@pytest.mark.parametrize(
    "mode, scenario, goal",
    [
        ("both", Scenario("wide"), 3.0),
        ("both", Scenario("wide", 3.0), 3.0),
        ("both", Scenario("dlrm", 1.0), 1.35),
        ("both", Scenario("dlrm"), 0.97),
        ("fused", Scenario("wide"), 0.97),
        ("async", Scenario("dlrm"), 0.97),
        ("async", Scenario("dlrm", 1.0), 1.15),
        ("pipelined", Scenario("dlrm", 3.0), 2.0),
        ("pipelined", Scenario("dlrm", 3.0, workers=2), 0.97),
        ("both", Scenario("wide", zipf=0.0), 0.97),
    ],
)
def test_the_goal_of_the_ratio_is_that_of_mode_and_scenario(
    mode: str, scenario: Scenario, goal: float
) -> None:
    assert goal_of(mode, scenario) == Goal(">=", goal)


def test_without_a_mode_that_is_cut_there_is_no_floor() -> None:
    contest = Contest((STOCK, ASYNC), ())
    assert contest.contestants == (STOCK, ASYNC)
    found = figures(outcome_of(contest, Scenario("dlrm", 0.0, workers=2), measured()).records)
    assert found["ratio_to_stock/async"].goal == Goal(">=", 0.97)
    assert found["steps_per_s/async"].floor is None
    assert found["steps_per_s/stock"].value == pytest.approx(2 * 50.0)


def test_the_delay_is_no_parameter_of_a_local_scenario() -> None:
    assert "delay_ms" not in Scenario("dlrm").params
    assert Scenario("dlrm", 0.0).params["delay_ms"] == 0.0
    assert Scenario("dlrm", 0.0).servers == 1
