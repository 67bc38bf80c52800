"""Runs every group of scenarios of training in a process of its own; see contests.py.

Figures: `steps_per_s`, `ratio_to_stock`, `cpu_s_per_step` (worker and parameter server),
`server_cpu_s_per_step`, `proxy_cpu_s_per_step`, `overlap_efficiency` and the parts it is computed
from (overlap.py); where calls are counted, `calls_per_step` and `bytes_per_step` of a worker, for
each number of servers (traffic.py); with exact rows, those of exact_figures.py.
"""

from __future__ import annotations

import sys
from typing import Sequence

from tools.bench.process_outcome import PartFailed, nothing_of, outcome_of_process, with_figures
from tools.bench.records import Outcome
from tools.bench.training import scenario as one_group
from tools.bench.training.contests import (
    CONTESTS,
    ON_SERVER,
    TWO_WORKERS,
    Contest,
    Scenario,
)
from tools.bench.training.sessions import BOTH

LIMIT_SECONDS = 900.0
_FIGURES = ("steps_per_s", "ratio_to_stock", "cpu_s_per_step", "overlap_efficiency")
_QUICK = (
    (ON_SERVER, (Scenario("wide", 0.0),)),
    (TWO_WORKERS, (Scenario("wide", 1.0, workers=2), Scenario("wide", 3.0, workers=2))),
)


def run(quick: bool = False) -> Outcome:
    """Measures every scenario; `quick` tries one of one worker, and two of two."""
    outcome = Outcome(())
    groups = _QUICK if quick else [(c, group) for c in CONTESTS for group in c.groups]
    for number, (contest, scenarios) in enumerate(groups, start=1):
        named = "; ".join(map(str, scenarios))
        print("{}/{} {}".format(number, len(groups), named), file=sys.stderr, flush=True)
        outcome += _separately(contest, scenarios, quick)
    return with_figures(outcome)


def _separately(contest: Contest, scenarios: Sequence[Scenario], quick: bool) -> Outcome:
    try:
        return outcome_of_process(one_group.measure, [contest, scenarios, quick], LIMIT_SECONDS)
    except PartFailed as error:
        ways = [(scenario.workload, BOTH, scenario.params) for scenario in scenarios]
        return sum((nothing_of(way, _FIGURES, error) for way in ways), Outcome(()))
