"""Runs every scenario of a contest in a process of its own; see contests.py.

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
from tools.bench.training.contests import CONTESTS, Contest, Scenario

LIMIT_SECONDS = 600.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")
_TRAFFIC = ("calls_per_step", "bytes_per_step")


def run(name: str, quick: bool = False) -> Outcome:
    """Measures every scenario of the contest of this name; `quick` tries one."""
    contest = CONTESTS[name]
    outcome = Outcome(())
    scenarios = (contest.quick_scenario,) if quick else contest.scenarios
    for number, scenario in enumerate(scenarios, start=1):
        print("{}/{} {}".format(number, len(scenarios), scenario), file=sys.stderr, flush=True)
        outcome += _separately(one_scenario.measure, contest, scenario, quick, _FIGURES)
    outcome = with_figures(outcome)
    for scenario in scenarios if contest.counts_traffic else ():
        if scenario.delay_ms == 0.0:
            print("counting calls: {}".format(scenario), file=sys.stderr, flush=True)
            outcome += _separately(traffic.measure, contest, scenario, quick, _TRAFFIC)
    return outcome


def _separately(
    measure: Measure, contest: Contest, scenario: Scenario, quick: bool, figures: Sequence[str]
) -> Outcome:
    try:
        return outcome_of_process(measure, [contest, scenario, quick], LIMIT_SECONDS)
    except PartFailed as error:
        return nothing_of((scenario.workload, contest.cut, scenario.params), figures, error)
