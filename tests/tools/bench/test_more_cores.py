"""What more cores would change, from turns whose steps are known."""

from __future__ import annotations

from typing import Dict, List

import pytest

from tools.bench.machine import cores
from tools.bench.training.contenders import Turn
from tools.bench.training.contests import IN_PROCESS, Scenario
from tools.bench.training.more_cores import CORES, on_more_cores, seconds_on


def turn(seconds: float, cpu_seconds: float) -> Turn:
    return Turn(10, 10 * seconds, {"worker": 10 * cpu_seconds}, [], {})


@pytest.mark.parametrize(
    "path, work", [(0.0, 8.0), (2.0, 8.0), (8.0, 8.0)], ids=["divides", "half", "one_after_other"]
)
def test_the_critical_path_stays_and_the_rest_divides(path: float, work: float) -> None:
    on_two = turn(path + (work - path) / 2, work)
    for count in CORES:
        assert seconds_on(on_two, count, 2) == pytest.approx(path + (work - path) / count)


def test_a_step_that_waits_is_as_long_on_more_cores() -> None:
    assert seconds_on(turn(9.0, 4.0), 16, 2) == pytest.approx(9.0)


@pytest.mark.skipif(cores() == 1, reason="a critical path is known from two cores on")
def test_the_measured_cores_give_the_measured_ratio() -> None:
    turns: Dict[str, List[Turn]] = {
        "stock": [turn(20.0, 20.0 + cores())],
        "both": [turn(12.0, 10.0)],
        "main_alone": [turn(10.0, 10.0)],
        "lookups_alone": [turn(2.0, 2.0)],
    }
    overlap, *_ = IN_PROCESS.overlaps
    found = on_more_cores(overlap, Scenario("wide"), turns)
    by_cores = {
        record.params["cores"]: record.value
        for record in found
        if record.figure == "computed_ratio_to_stock"
    }
    assert by_cores.keys() == set(CORES)
    if cores() in by_cores:
        assert by_cores[cores()] == pytest.approx(20 / 12)
