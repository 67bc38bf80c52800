"""What exact rows cost follows from the turns, and docs/ shows it as train.json has it."""

from __future__ import annotations

from typing import Dict, Iterator, List

import pytest

from tools.bench.records import Goal, Outcome, Record
from tools.bench.training import exact_page
from tools.bench.training.contenders import Turn
from tools.bench.training.contests import CONTESTS, Contest, Scenario
from tools.bench.training.exact_figures import exact_outcome
from tools.bench.training.sessions import BOTH, EXACT, FUSED, STOCK

EXACT_SCENARIOS = [
    scenario for each in CONTESTS if EXACT in each.modes for scenario in each.scenarios
]
SPEEDS = {STOCK: 1.0, FUSED: 1.5, BOTH: 2.0, EXACT: 1.9}


def turns(**rates: List[float]) -> Dict[str, List[Turn]]:
    """Turns of ten steps at so many steps a second."""
    return {
        mode: [Turn(10, 10 / rate, {}, [], {}) for rate in of_rounds]
        for mode, of_rounds in rates.items()
    }


def test_the_share_is_that_of_the_typical_gain() -> None:
    # In the third round running ahead gained nothing, so that its own share would be no number.
    measured = turns(
        fused=[50.0, 60.0, 100.0], both=[100.0, 99.0, 100.0], exact=[90.0, 80.0, 130.0]
    )
    shares, beside_fused = (
        next(
            each
            for each in exact_outcome(Scenario("dlrm", 1.0), measured).records
            if each.figure == name
        )
        for name in ("share_of_async_gain", "ratio_to_fused")
    )
    assert shares.runs == pytest.approx((1.0, 0.5, 0.75))
    assert shares.value == pytest.approx(0.75)
    assert shares.goal == Goal(">=", 0.8)
    assert beside_fused.runs == pytest.approx((1.8, 4 / 3, 1.3))
    assert beside_fused.goal == Goal(">=", 0.97)


def test_without_a_gain_there_is_no_share_of_it() -> None:
    measured = turns(fused=[50.0], both=[51.0], exact=[49.0])
    outcome = exact_outcome(Scenario("wide", zipf=1.5), measured)
    (absent,) = outcome.absent
    assert absent.figure == "share_of_async_gain"
    assert absent.params["zipf"] == 1.5
    assert absent.reason == (
        "both is 1.02 times as fast as fused: too little to tell a share of it"
    )
    assert [each.figure for each in outcome.records] == ["ratio_to_fused"]


def records() -> Iterator[Record]:
    for scenario in EXACT_SCENARIOS:
        of_exact = (scenario.workload, EXACT, scenario.params)
        yield Record("share_of_async_gain", *of_exact, value=0.8)
        yield Record("conflicting_rows_share", *of_exact, value=0.05)
        yield Record("floor_s_per_step", *of_exact, value=0.01)
        for mode, speed in SPEEDS.items():
            where = (scenario.workload, mode, scenario.params)
            yield Record("steps_per_s", *where, value=40 * speed, unit="1/s")
            if mode != STOCK:
                yield Record("ratio_to_stock", *where, value=speed)
            if scenario.delay_ms == 0.0:
                params = {"servers": 1}
                yield Record("bytes_per_step", scenario.workload, mode, params, 3e6 / speed)


def test_the_tables_have_a_row_for_each_scenario() -> None:
    outcome = Outcome(tuple(records()))
    rows, causes = exact_page.rows(outcome), exact_page.causes_rows(outcome)
    assert len(rows) == len(causes) == len(EXACT_SCENARIOS)
    assert rows[0] == "| wide | in the process | Zipf 1.1 | **1.50** | **2.00** | **1.90** |"
    assert causes[1] == "| wide | on a server 0 ms away | Zipf 1.1 | 0.05 | 0.80 | 2.5 |"
    assert rows[-2].startswith("| DLRM | in the process | uniform |")
    assert rows[-1].startswith("| DLRM | in the process | Zipf 1.5 |")
    lines = (*exact_page.HEAD, *rows, *exact_page.CAUSES_HEAD, *causes)
    assert {line.count("|") for line in lines} == {7}


@pytest.mark.parametrize("contest", CONTESTS)
def test_each_mode_and_half_runs_once_in_a_round(contest: Contest) -> None:
    contestants = contest.contestants
    assert len(set(contestants)) == len(contestants)
