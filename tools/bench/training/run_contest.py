"""Runs every scenario of training in a process of its own; see contests.py.

Figures: `steps_per_s`, `ratio_to_stock`, `cpu_s_per_step` (worker and parameter server),
`server_cpu_s_per_step`, `proxy_cpu_s_per_step`, `overlap_efficiency` and the parts it is computed
from (overlap.py); where calls are counted, `calls_per_step` and `bytes_per_step` of a worker, for
each number of servers (traffic.py); with exact rows, those of exact_figures.py.
"""

from __future__ import annotations

import sys
from typing import Sequence

from tools.bench.process_outcome import (
    Measure,
    PartFailed,
    nothing_of,
    outcome_of_process,
    with_figures,
)
from tools.bench.records import Outcome
from tools.bench.training import scenario as one_scenario
from tools.bench.training import traffic
from tools.bench.training.contests import (
    CONTESTS,
    ON_SERVER,
    TWO_WORKERS,
    Contest,
    Scenario,
)
from tools.bench.training.sessions import BOTH

LIMIT_SECONDS = 600.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")
_TRAFFIC = ("calls_per_step", "bytes_per_step")
_QUICK = [(ON_SERVER, Scenario("wide", 0.0)), (TWO_WORKERS, Scenario("wide", 0.0, workers=2))]


def run(quick: bool = False) -> Outcome:
    """Measures every scenario; `quick` tries one of one worker, and one of two."""
    outcome = Outcome(())
    scenarios = _QUICK if quick else [(c, scenario) for c in CONTESTS for scenario in c.scenarios]
    for number, (contest, scenario) in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += _separately(one_scenario.measure, contest, scenario, quick, _FIGURES)
    outcome = with_figures(outcome)
    for contest, scenario in scenarios:
        if contest.counted and scenario.delay_ms == 0.0:
            print("counting calls: {}".format(scenario), file=sys.stderr, flush=True)
            outcome += _separately(traffic.measure, contest, scenario, quick, _TRAFFIC)
    return outcome


def _separately(
    measure: Measure, contest: Contest, scenario: Scenario, quick: bool, figures: Sequence[str]
) -> Outcome:
    try:
        return outcome_of_process(measure, [contest, scenario, quick], LIMIT_SECONDS)
    except PartFailed as error:
        return nothing_of((scenario.workload, BOTH, scenario.params), figures, error)
